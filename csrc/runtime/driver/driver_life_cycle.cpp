#include "runtime/driver/driver_life_cycle.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/config.h"
#include "runtime/base/device_name.h"
#include "runtime/base/status.h"
#include "runtime/base/thread_state.h"
#include "runtime/driver/driver_loader.h"

namespace mydev {

namespace {

constexpr const char* kForkAdvice = MYDEV_DEVICE_NAME
    " cannot be used in a forked child of a process that has used it; start the child with the 'spawn' method "
    "(multiprocessing.set_start_method('spawn'))";

enum class State { kUnloaded, kLoaded, kFailed, kBadFork };

// Written under `mutex`, except by the fork handler, which runs alone in the child.
struct LifeCycle {
  std::mutex mutex;
  std::atomic<State> state{State::kUnloaded};
  LoadedDriver driver{};  // kLoaded
  std::vector<mydev_device_properties> devices;
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
    .last_error = [] { return kForkAdvice; },
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

void check_properties(const mydev_device_properties& properties, int index) {
  const uint32_t alignment = properties.alignment;
  MYDEV_CHECK(alignment >= 64 && (alignment & (alignment - 1)) == 0, MYDEV_FAILED_PRECONDITION,
              "the driver gives device ", index, " an alignment of ", alignment,
              " bytes; it must be a power of two and at least 64");
  MYDEV_CHECK(properties.stream_priority_high <= properties.stream_priority_low, MYDEV_FAILED_PRECONDITION,
              "the driver gives device ", index, " stream priorities from ", properties.stream_priority_high, " to ",
              properties.stream_priority_low, "; the more urgent one must be the smaller number");
}

void load(LifeCycle& life) {
  const std::string spec = config_string("MYDEV_DRIVER");
  const mydev_driver_api& driver = load_driver(spec);
  const auto check = [&](mydev_code code, const std::string& what) {
    MYDEV_CHECK(code == MYDEV_OK, code, "driver '", spec, "': ", what, " failed: ", driver.last_error(), " [",
                code_name(code), "]");
  };
  int32_t count = 0;
  check(driver.device_count(&count), "counting its devices");
  MYDEV_CHECK(count >= 0 && count <= kMaxDevices, MYDEV_OUT_OF_RANGE, "driver '", spec, "' reports ", count,
              " devices; from 0 to ", kMaxDevices, " are supported");
  for (int32_t index = 0; index < count; ++index) {
    mydev_device_properties properties{};
    properties.struct_size = sizeof(properties);
    check(driver.device_properties(index, &properties), "reading the properties of device " + std::to_string(index));
    properties.name[sizeof(properties.name) - 1] = '\0';
    check_properties(properties, index);
    life.devices.push_back(properties);
  }
  life.driver = {&driver, life.devices};
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

const LoadedDriver* load_driver_once() noexcept {
  return ensure_loaded() == State::kLoaded ? &life_cycle().driver : nullptr;
}

void raise_driver_missing() {
  if (in_bad_fork()) {
    raise(MYDEV_FAILED_PRECONDITION, kForkAdvice);
  }
  raise(life_cycle().code, std::string("no " MYDEV_DEVICE_NAME " device: ") + life_cycle().message);
}

const mydev_driver_api& forked_driver() noexcept {
  return kForkedDriver;
}

const char* driver_error() noexcept {
  switch (ensure_loaded()) {
    case State::kBadFork:
      return kForkAdvice;
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
