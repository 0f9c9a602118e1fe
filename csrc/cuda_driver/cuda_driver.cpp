// The driver for NVIDIA's GPUs. A driver like any other, on the public headers alone; the runtime loads it from its own
// directory for MYDEV_DRIVER=cuda. It is built without anything of CUDA's, and loads libcuda, which comes with NVIDIA's
// driver, and NVRTC, which compiles kernels, when it starts; and cuBLASLt and cuDNN, if they are there, for kernels of
// the driver's own. Without NVRTC it lists no compiler, and devices have no other kernels.
//
// Work is asynchronous. A launch's parameters are copied before it returns, and what fails later is reported by
// stream_status or by a wait. Errors have CUDA's name and number in their message.
#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "cuda_driver/commands/cuda_copy.h"
#include "cuda_driver/commands/cuda_graphs.h"
#include "cuda_driver/compiler/cuda_modules.h"
#include "cuda_driver/compiler/nvrtc.h"
#include "cuda_driver/device/cuda_device.h"
#include "cuda_driver/device/cuda_options.h"
#include "cuda_driver/kernels/library_kernels.h"
#include "cuda_driver/library/cuda_library.h"
#include "cuda_driver/memory/cuda_memory.h"
#include "cuda_driver/observe/profiler.h"
#include "cuda_driver/observe/telemetry.h"
#include "cuda_driver/stream/cuda_stream.h"
#include "mydev/driver_extensions.h"

namespace mydev::cuda_driver {

namespace {

void omit_compiler();

// The versions of the driver and of its compiler: keys of cached binaries have both.
std::array<char, 64> version = {"1.0"};

mydev_code initialize(const char* options, const mydev_host_services* host) {
  return run_checked([&] {
    const CudaOptions parsed = parse_cuda_options(options);
    load_cuda(parsed.library);
    find_devices(parsed);
    load_kernel_libraries(parsed);
    load_nvrtc(parsed.nvrtc);
    if (has_nvrtc()) {
      std::snprintf(version.data(), version.size(), "1.0, NVRTC %s", nvrtc_version().c_str());
      return;
    }
    omit_compiler();
    host->log(
        MYDEV_LOG_WARNING,
        "the CUDA driver finds no NVRTC, so that devices have no portable kernels: install nvidia-cuda-nvrtc, or give "
        "its directory as MYDEV_DRIVER=cuda:nvrtc=DIRECTORY");
  });
}

mydev_code device_count(int32_t* out_count) {
  *out_count = count_devices();
  return MYDEV_OK;
}

mydev_code device_properties(int32_t device, mydev_device_properties* out) {
  return run_checked([&] { describe(device_at(device), *out); });
}

const void* extension(const char* name, uint32_t /*version*/) {
  const std::string_view asked = name;
  if (asked == MYDEV_COMPILER_EXTENSION) return &compiler_extension();
  if (asked == MYDEV_GRAPH_EXTENSION) return &graph_extension();
  if (asked == MYDEV_PROFILER_EXTENSION) return &profiler_extension();
  if (asked == MYDEV_TELEMETRY_EXTENSION) return &telemetry_extension();
  return nullptr;
}

// The compiler last: it is there only with NVRTC.
constexpr std::array kExtensions = {mydev_extension{MYDEV_GRAPH_EXTENSION, MYDEV_GRAPH_VERSION},
                                    mydev_extension{MYDEV_PROFILER_EXTENSION, MYDEV_PROFILER_VERSION},
                                    mydev_extension{MYDEV_TELEMETRY_EXTENSION, MYDEV_TELEMETRY_VERSION},
                                    mydev_extension{MYDEV_COMPILER_EXTENSION, MYDEV_COMPILER_VERSION}};

mydev_driver_api& api() {
  // clang-format off: a line for what belongs together
  static mydev_driver_api table = {
      .struct_size = sizeof(mydev_driver_api),
      .version_major = MYDEV_DRIVER_VERSION_MAJOR, .version_minor = MYDEV_DRIVER_VERSION_MINOR,
      .name = "cuda", .version = version.data(),
      .initialize = initialize, .last_error = last_error,
      .device_count = device_count, .device_properties = device_properties,
      .memory_alloc = memory_alloc, .memory_free = memory_free, .memory_info = memory_info,
      .host_alloc = host_alloc, .host_free = host_free,
      .copy = copy, .copy_peer = copy_peer, .fill = fill,
      .stream_create = stream_create, .stream_destroy = stream_destroy, .stream_query = stream_query,
      .stream_synchronize = stream_synchronize, .stream_wait_event = stream_wait_event,
      .event_create = event_create, .event_destroy = event_destroy, .event_record = event_record,
      .event_query = event_query, .event_synchronize = event_synchronize, .event_elapsed = event_elapsed,
      .launch = launch, .find_kernel = find_kernel,
      .stream_status = stream_status, .stream_host_call = stream_host_call,
      .copy_strided = copy_strided, .peer_access = peer_access,
      .host_register = host_register, .host_unregister = host_unregister, .pointer_info = pointer_info,
      .extensions = kExtensions.data(), .num_extensions = kExtensions.size(), .extension = extension,
      .list_kernels = list_kernels,
  };
  // clang-format on
  return table;
}

void omit_compiler() {
  api().num_extensions = kExtensions.size() - 1;
}

}  // namespace

}  // namespace mydev::cuda_driver

extern "C" MYDEV_EXPORT const mydev_driver_api* mydev_driver_query(uint32_t version_major, uint32_t /*version_minor*/) {
  return version_major == MYDEV_DRIVER_VERSION_MAJOR ? &mydev::cuda_driver::api() : nullptr;
}
