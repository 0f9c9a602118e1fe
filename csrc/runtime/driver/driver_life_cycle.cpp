#include "runtime/driver/driver_life_cycle.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/config.h"
#include "runtime/base/device_name.h"
#include "runtime/base/status.h"
#include "runtime/base/thread_state.h"
#include "runtime/driver/device_properties.h"
#include "runtime/driver/driver_loader.h"
#include "runtime/driver/driver_refusal.h"

namespace mydev {

namespace {

const char* fork_advice() {
  static const std::string& advice = *new std::string(
      std::string(device_name()) +
      " cannot be used in a forked child of a process that has used it; start the child with the 'spawn' method "
      "(multiprocessing.set_start_method('spawn'))");
  return advice.c_str();
}

enum class State { kUnloaded, kLoaded, kFailed, kBadFork };

// Written under `mutex`, except by the fork handler, which runs alone in the child.
struct LifeCycle {
  std::mutex mutex;
  std::atomic<State> state{State::kUnloaded};
  LoadedDriver driver{};  // kLoaded
  std::vector<mydev_device_properties> devices;
  std::vector<uint64_t> peers;
  mydev_code code = MYDEV_OK;  // kFailed: why
  std::string message;
};

// Never destroyed: the driver is used until the process is gone.
LifeCycle& life_cycle() {
  static LifeCycle& instance = *new LifeCycle;
  return instance;
}

// --- fork, exit ------------------------------------------------------------------------------------------------------

template <typename... Args>
mydev_code refuse(Args...) {
  return MYDEV_FAILED_PRECONDITION;
}

constexpr mydev_driver_api kForkedDriver = {
    .struct_size = sizeof(mydev_driver_api),
    .version_major = MYDEV_DRIVER_VERSION_MAJOR,
    .version_minor = MYDEV_DRIVER_VERSION_MINOR,
    .name = "forked",
    .version = "",
    .initialize = refuse,
    .finalize = nullptr,
    .last_error = [] { return fork_advice(); },
    .device_count = refuse,
    .device_properties = refuse,
    .device_synchronize = refuse,
    .memory_alloc = refuse,
    .memory_free = refuse,
    .memory_info = refuse,
    .host_alloc = refuse,
    .host_free = refuse,
    .host_access_begin = refuse,
    .host_access_end = refuse,
    .copy = refuse,
    .copy_peer = refuse,
    .fill = refuse,
    .stream_create = refuse,
    .stream_destroy = refuse,
    .stream_query = refuse,
    .stream_synchronize = refuse,
    .stream_wait_event = refuse,
    .event_create = refuse,
    .event_destroy = refuse,
    .event_record = refuse,
    .event_query = refuse,
    .event_synchronize = refuse,
    .event_elapsed = refuse,
    .launch = refuse,
    .find_kernel = nullptr,
    .stream_status = refuse,
    .stream_host_call = refuse,
    .event_on_done = refuse,
    .copy_strided = refuse,
    .peer_access = refuse,
    .host_register = refuse,
    .host_unregister = refuse,
    .pointer_info = refuse,
    .extensions = nullptr,
    .num_extensions = 0,
    .extension = nullptr,
    .list_kernels = nullptr,
    .host_access_begin_range = refuse,
    .host_access_end_range = refuse,
};

void after_fork_in_child() {
  life_cycle().state.store(State::kBadFork, std::memory_order_release);
}

void at_exit() {
  if (!driver_loaded()) {
    return;
  }
  const LoadedDriver& driver = life_cycle().driver;
  if (!driver.devices.empty() && driver.api->finalize != nullptr) {
    driver.api->finalize();
  }
}

// --- load ------------------------------------------------------------------------------------------------------------

// Bit i: the device copies to device i without the host.
uint64_t find_peers(const mydev_driver_api& driver, const std::vector<mydev_device_properties>& devices, int32_t index,
                    const std::string& spec) {
  const auto claims = [&](int32_t device) {
    return (devices[static_cast<size_t>(device)].capabilities & MYDEV_CAPABILITY_PEER) != 0;
  };
  uint64_t peers = 0;
  for (int32_t peer = 0; peer < static_cast<int32_t>(devices.size()); ++peer) {
    if (peer == index || driver.copy_peer == nullptr) continue;
    int32_t can = claims(index) && claims(peer) ? 1 : 0;
    if (driver.peer_access != nullptr) {
      const mydev_code code = driver.peer_access(index, peer, &can);
      MYDEV_CHECK(code == MYDEV_OK, code, "driver '", spec, "': asking whether device ", index, " reaches device ",
                  peer, " failed: ", driver.last_error(), " [", code_name(code), "]");
    }
    if (can != 0) peers |= uint64_t{1} << peer;
  }
  return peers;
}

void load(LifeCycle& life) {
  const std::string spec = config_string("MYDEV_DRIVER");
  const OpenDriver& opened = load_driver(spec);
  const mydev_driver_api& driver = opened.api;
  int32_t count = 0;
  const mydev_code code = driver.device_count(&count);
  MYDEV_CHECK(code == MYDEV_OK, code, "driver '", spec, "': counting its devices failed: ", driver.last_error(), " [",
              code_name(code), "]");
  MYDEV_CHECK(count >= 0 && count <= kMaxDevices, MYDEV_OUT_OF_RANGE, "driver '", spec, "' reports ", count,
              " devices; from 0 to ", kMaxDevices, " are supported");
  for (int32_t index = 0; index < count; ++index) {
    life.devices.push_back(read_properties(driver, spec, index));
  }
  for (int32_t index = 0; index < count; ++index) {
    life.peers.push_back(find_peers(driver, life.devices, index, spec));
  }
  life.driver = {&driver, life.devices, life.peers, opened.extensions};
  ::pthread_atfork(nullptr, nullptr, after_fork_in_child);
  std::atexit(at_exit);
}

State ensure_loaded() noexcept {
  LifeCycle& life = life_cycle();
  State state = life.state.load(std::memory_order_acquire);
  if (state != State::kUnloaded) {
    return state;
  }
  const std::lock_guard lock(life.mutex);
  state = life.state.load(std::memory_order_relaxed);
  if (state != State::kUnloaded) {
    return state;
  }
  const RaiserBypass bypass;  // torch's errors carry frames of C++ in their text
  try {
    load(life);
    state = State::kLoaded;
  } catch (const Error& error) {
    life.code = error.code();
    life.message = error.what();
    state = State::kFailed;
  } catch (const std::exception& error) {
    life.code = MYDEV_INTERNAL;
    life.message = error.what();
    state = State::kFailed;
  }
  life.state.store(state, std::memory_order_release);
  return state;
}

}  // namespace

void refuse_driver(std::string reason) {
  LifeCycle& life = life_cycle();
  const std::lock_guard lock(life.mutex);
  if (life.state.load(std::memory_order_relaxed) != State::kUnloaded) return;
  life.code = MYDEV_INVALID_ARGUMENT;
  life.message = std::move(reason);
  life.state.store(State::kFailed, std::memory_order_release);
}

void choose_driver(const std::string& spec) {
  LifeCycle& life = life_cycle();
  const std::lock_guard lock(life.mutex);
  if (life.state.load(std::memory_order_relaxed) == State::kUnloaded) return set_config("MYDEV_DRIVER", spec);
  const std::string used = config_string("MYDEV_DRIVER");
  MYDEV_CHECK(spec == used, MYDEV_FAILED_PRECONDITION, "a framework asks for driver '", spec,
              "', and this process uses '", used, "' already");
}

const LoadedDriver* load_driver_once() noexcept {
  return ensure_loaded() == State::kLoaded ? &life_cycle().driver : nullptr;
}

void raise_driver_missing() {
  if (in_bad_fork()) {
    raise(MYDEV_FAILED_PRECONDITION, fork_advice());
  }
  raise(life_cycle().code, std::string("no ") + device_name() + " device: " + life_cycle().message);
}

const mydev_driver_api& forked_driver() noexcept {
  return kForkedDriver;
}

const DriverExtension* find_extension(const mydev_driver_api& driver, std::string_view name) noexcept {
  const LoadedDriver* loaded = load_driver_once();
  if (loaded == nullptr || &driver != loaded->api) return nullptr;
  const auto found = std::ranges::find_if(loaded->extensions, [&](const DriverExtension& extension) {
    return extension.name == name && extension.known();
  });
  return found == loaded->extensions.end() ? nullptr : &*found;
}

const char* driver_error() noexcept {
  switch (ensure_loaded()) {
    case State::kBadFork:
      return fork_advice();
    case State::kFailed:
      return life_cycle().message.c_str();
    case State::kLoaded:
    case State::kUnloaded:
      break;
  }
  return "";
}

bool driver_loaded() noexcept {
  return life_cycle().state.load(std::memory_order_acquire) == State::kLoaded;
}

bool in_bad_fork() noexcept {
  return life_cycle().state.load(std::memory_order_acquire) == State::kBadFork;
}

}  // namespace mydev
