// Devices: counting, choosing, waiting, describing; and their ties to torch's own machinery (fork, exit, generators).
#include <chrono>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <system_error>
#include <thread>

#include <ATen/Context.h>
#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/utils/device_lazy_init.h>

#include "aten/core/device_type.h"
#include "aten/core/sync_debug.h"
#include "python/bindings.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver_life_cycle.h"
#include "runtime/driver/driver_refusal.h"
#include "runtime/driver/telemetry.h"
#include "runtime/frame/dtype.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

namespace {

// The names of the dtypes as attributes of the module torch.
pybind11::list dtype_names(uint64_t bits) {
  pybind11::list names;
  for (const DtypeRow& row : kDtypes) {
    if ((bits & MYDEV_DTYPE_BIT(row.dtype)) != 0 && row.python_name != nullptr) names.append(row.python_name);
  }
  return names;
}

std::string hexadecimal(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

// Name and version of each extension that the driver lists, and whether the runtime knows it.
pybind11::list driver_extensions() {
  pybind11::list extensions;
  const LoadedDriver* driver = load_driver_once();
  if (driver == nullptr) return extensions;
  for (const DriverExtension& extension : driver->extensions) {
    extensions.append(pybind11::make_tuple(extension.name, extension.version, extension.known()));
  }
  return extensions;
}

pybind11::dict describe_device(int index) {
  const Device& object = device(index);
  const mydev_device_properties& properties = object.properties;
  pybind11::dict result;
  result["name"] = properties.name;
  result["total_memory"] = properties.total_memory;
  result["alignment"] = properties.alignment;
  result["major"] = properties.major;
  result["minor"] = properties.minor;
  result["multi_processor_count"] = properties.multi_processor_count;
  result["stream_priority_low"] = properties.stream_priority_low;
  result["stream_priority_high"] = properties.stream_priority_high;
  result["host_accessible"] = object.host_accessible();
  result["host_access_slow"] = object.host_accessible() && !object.host_computes();
  result["asynchronous"] = object.asynchronous();
  result["peer_access"] = (properties.capabilities & MYDEV_CAPABILITY_PEER) != 0;
  result["unified_memory"] = (properties.capabilities & MYDEV_CAPABILITY_UNIFIED_MEMORY) != 0;
  result["uuid"] = hexadecimal(properties.uuid);
  result["architecture"] = properties.architecture;
  result["native_dtypes"] = dtype_names(properties.native_dtypes);
  result["max_allocation"] = properties.max_allocation;
  result["shared_memory_per_block"] = properties.local_memory;
  result["memory_bandwidth"] = properties.memory_bandwidth;
  result["driver"] = object.driver->name;
  result["driver_version"] = properties.driver_version;
  return result;
}

auto measured(mydev_measure what) {
  return wrap_pybind_function([what](int index) { return measure(device(index), what); });
}

bool autograd_thread_alive() {
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name.starts_with("pt_autograd")) return true;
  }
  return false;
}

// Autograd's device threads release Python objects after backward() has returned, and again as they end. If the
// interpreter is finalizing by then, the process aborts; so at exit they are stopped first, and waited for until they
// are gone: the engine's own stop() returns a little before that. A backward() after this runs on its caller's thread.
void stop_autograd_threads() {
  torch::autograd::Engine::get_default_engine().stop();
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (autograd_thread_alive() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

void bind_device(pybind11::module_& m) {
  m.def("device_count", device_count, pybind11::call_guard<pybind11::gil_scoped_release>());
  m.def("driver_error", driver_error);
  m.def("driver_loaded", driver_loaded);
  m.def("refuse_driver", refuse_driver);
  m.def("in_bad_fork", in_bad_fork);
  m.def("current_device", current_device);
  m.def("set_device", wrap_pybind_function_no_gil(set_current_device));
  m.def("exchange_device", wrap_pybind_function_no_gil([](int index) {
          if (index >= 0) {
            device(index);  // raises for an index that does not exist
          }
          return exchange_current_device(index);
        }));
  m.def("synchronize", wrap_pybind_function_no_gil([](int index) { synchronize_device(device(index)); }));
  m.def("wait_for_streams", wrap_pybind_function_no_gil([] { wait_for_streams(); }));
  m.def("sync_debug_mode", [] { return static_cast<int>(sync_debug_mode()); });
  m.def("set_sync_debug_mode", [](int mode) { set_sync_debug_mode(static_cast<SyncDebugMode>(mode)); });
  m.def("can_access_peer",
        wrap_pybind_function([](int index, int peer) { return device(index).reaches(device(peer)); }));
  m.def("driver_extensions", driver_extensions);
  m.def("device_properties", wrap_pybind_function(describe_device));
  m.def("utilization", measured(MYDEV_MEASURE_UTILIZATION));
  m.def("memory_utilization", measured(MYDEV_MEASURE_MEMORY_UTILIZATION));
  m.def("temperature", measured(MYDEV_MEASURE_TEMPERATURE));
  m.def("power_draw", measured(MYDEV_MEASURE_POWER));
  m.def("clock_rate", measured(MYDEV_MEASURE_CLOCK));

  m.def("register_fork_handler",
        wrap_pybind_function([] { torch::utils::register_fork_handler_for_device_init(kDeviceType); }));
  m.def("stop_autograd_threads", wrap_pybind_function_no_gil(stop_autograd_threads));
  m.def("default_generator", wrap_pybind_function([](int index) {
          device(index);
          return at::globalContext().defaultGenerator(torch_device(index));
        }));
}

}  // namespace mydev
