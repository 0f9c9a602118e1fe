#include "runtime/device.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <string>

#include "runtime/caching_allocator.h"
#include "runtime/config.h"
#include "runtime/device_name.h"
#include "runtime/driver_loader.h"
#include "runtime/status.h"
#include "runtime/stream.h"

namespace mydev {

namespace {

constexpr const char* kForkAdvice = MYDEV_DEVICE_NAME
    " cannot be used in a forked child of a process that has used it; start the child with the 'spawn' method "
    "(multiprocessing.set_start_method('spawn'))";

std::array<Device, kMaxDevices> device_table;

enum class State { kUnloaded, kLoaded, kFailed, kBadFork };

// Written under `mutex`, except by the fork handler, which runs alone in the child.
struct Loader {
  std::mutex mutex;
  std::atomic<State> state{State::kUnloaded};
  mydev_code code = MYDEV_OK;  // kFailed: why
  std::string message;
};

// Never destroyed: devices are used until the process is gone.
Loader& loader() {
  static Loader& instance = *new Loader;
  return instance;
}

// --- fork ------------------------------------------------------------------------------------------------------------

template <typename... Args>
mydev_code refuse(Args...) {
  return MYDEV_FAILED_PRECONDITION;
}

// Stands in for the driver in a forked child, whose threads, locks and device connections did not survive the fork.
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
  detail::loaded_device_count.store(0, std::memory_order_release);
  for (Device& device : device_table) {
    device.driver = &kForkedDriver;
  }
  detail::forget_streams();
  loader().state.store(State::kBadFork, std::memory_order_release);
}

// --- exit ------------------------------------------------------------------------------------------------------------

// Waits for pending work, which may use what the destructors of other libraries are about to take away.
void at_exit() {
  if (loader().state.load(std::memory_order_acquire) != State::kLoaded) {
    return;
  }
  const unsigned count = detail::loaded_device_count.load(std::memory_order_acquire);
  for (unsigned index = 0; index < count; ++index) {
    for (Stream* stream : existing_streams(static_cast<int>(index))) {
      if (!stream->released()) {
        detail::devices[index].driver->stream_synchronize(stream->handle());
      }
    }
  }
  if (count > 0 && detail::devices[0].driver->finalize != nullptr) {
    detail::devices[0].driver->finalize();
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

void load() {
  const mydev_driver_api& driver = load_driver(config_string("MYDEV_DRIVER"));
  const auto check = [&](mydev_code code, const std::string& what) {
    MYDEV_CHECK(code == MYDEV_OK, code, what, " failed: ", driver.last_error(), " [", code_name(code), "]");
  };
  int32_t count = 0;
  check(driver.device_count(&count), "counting the driver's devices");
  MYDEV_CHECK(count >= 0 && count <= kMaxDevices, MYDEV_OUT_OF_RANGE, "the driver reports ", count,
              " devices; from 0 to ", kMaxDevices, " are supported");
  for (int32_t index = 0; index < count; ++index) {
    mydev_device_properties properties{};
    properties.struct_size = sizeof(properties);
    check(driver.device_properties(index, &properties), "reading the properties of device " + std::to_string(index));
    properties.name[sizeof(properties.name) - 1] = '\0';
    check_properties(properties, index);
    device_table[static_cast<size_t>(index)] = Device{index, &driver, properties};
  }
  ::pthread_atfork(nullptr, nullptr, after_fork_in_child);
  std::atexit(at_exit);
  detail::loaded_device_count.store(static_cast<unsigned>(count), std::memory_order_release);
}

// Loads once; a failure is remembered, not tried again.
State ensure_loaded() noexcept {
  Loader& loader = mydev::loader();
  State state = loader.state.load(std::memory_order_acquire);
  if (state != State::kUnloaded) {
    return state;
  }
  const std::lock_guard lock(loader.mutex);
  state = loader.state.load(std::memory_order_relaxed);
  if (state != State::kUnloaded) {
    return state;
  }
  try {
    load();
    state = State::kLoaded;
  } catch (const Error& error) {
    loader.code = error.code();
    loader.message = error.what();
    state = State::kFailed;
  } catch (const std::exception& error) {
    loader.code = MYDEV_INTERNAL;
    loader.message = error.what();
    state = State::kFailed;
  }
  loader.state.store(state, std::memory_order_release);
  return state;
}

}  // namespace

namespace detail {

std::atomic<unsigned> loaded_device_count{0};
Device* const devices = device_table.data();

Device& load_device(int index) {
  switch (ensure_loaded()) {
    case State::kBadFork:
      raise(MYDEV_FAILED_PRECONDITION, kForkAdvice);
    case State::kFailed:
      raise(loader().code, std::string("no " MYDEV_DEVICE_NAME " device: ") + loader().message);
    case State::kLoaded:
    case State::kUnloaded:
      break;
  }
  const int count = static_cast<int>(loaded_device_count.load(std::memory_order_acquire));
  MYDEV_CHECK(count > 0, MYDEV_FAILED_PRECONDITION, "no " MYDEV_DEVICE_NAME " device: driver '",
              config_string("MYDEV_DRIVER"), "' finds no hardware");
  MYDEV_CHECK(index >= 0 && index < count, MYDEV_INVALID_ARGUMENT, "invalid device index ", index, ": there ",
              count == 1 ? "is 1 " : "are " + std::to_string(count) + " ", MYDEV_DEVICE_NAME " device",
              count == 1 ? ", number 0" : "s, numbered 0 to " + std::to_string(count - 1));
  return devices[index];
}

void raise_driver_error(const Device& device, mydev_code code, const char* what) {
  const std::string message = device.driver->last_error();
  raise_formatted(code, what, " failed on device " MYDEV_DEVICE_NAME ":", device.index, ": ", message, " [",
                  code_name(code), "]");
}

}  // namespace detail

int device_count() noexcept {
  ensure_loaded();
  return static_cast<int>(detail::loaded_device_count.load(std::memory_order_acquire));
}

const char* driver_error() noexcept {
  switch (ensure_loaded()) {
    case State::kBadFork:
      return kForkAdvice;
    case State::kFailed:
      return loader().message.c_str();
    case State::kLoaded:
    case State::kUnloaded:
      break;
  }
  return "";
}

bool driver_loaded() noexcept {
  return loader().state.load(std::memory_order_acquire) == State::kLoaded;
}

bool in_bad_fork() noexcept {
  return loader().state.load(std::memory_order_acquire) == State::kBadFork;
}

void set_current_device(int index) {
  detail::current_device_index = device(index).index;
}

int exchange_current_device(int index) noexcept {
  const int previous = detail::current_device_index;
  if (index >= 0) {
    detail::current_device_index = index;
  }
  return previous;
}

void Device::synchronize() {
  if (driver->device_synchronize != nullptr) {
    check_driver(*this, driver->device_synchronize(index), "synchronizing the device");
  } else {
    for (Stream* stream : existing_streams(index)) {
      if (!stream->released()) {
        check_driver(*this, driver->stream_synchronize(stream->handle()), "synchronizing a stream");
      }
    }
  }
  detail::raise_first_stream_error(index);
}

void Device::memory_info(uint64_t& free_bytes, uint64_t& total_bytes) {
  if (driver->memory_info == nullptr) {
    total_bytes = properties.total_memory;
    const auto reserved = static_cast<uint64_t>(allocator_stats(index).reserved_bytes.all.current);
    free_bytes = total_bytes - std::min(total_bytes, reserved);
    return;
  }
  check_driver(*this, driver->memory_info(index, &free_bytes, &total_bytes), "asking for free memory");
}

HostAccess::HostAccess(Device& device) : device_(device) {
  if (device.driver->host_access_begin != nullptr) {
    check_driver(device, device.driver->host_access_begin(device.index), "beginning host access");
  }
}

HostAccess::~HostAccess() {
  if (device_.driver->host_access_end != nullptr) {
    device_.driver->host_access_end(device_.index);
  }
}

}  // namespace mydev
