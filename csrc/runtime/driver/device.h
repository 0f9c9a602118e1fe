// Devices of the loaded driver, and the calling thread's current device.
//
// Looking one up loads the driver (driver_life_cycle.h). Device objects live until the process ends. The current device
// is thread-local and starts at 0. Everything is thread-safe. In a forked child of a process that had used a device,
// calls that need the driver raise FAILED_PRECONDITION with the advice to use the spawn start method.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "mydev/driver.h"
#include "runtime/base/api.h"
#include "runtime/base/thread_state.h"

namespace mydev {

struct Device {
  int index;
  const mydev_driver_api* driver;
  mydev_device_properties properties;
  uint64_t peers;  // bit i: copy_peer reaches device i
  bool host_accessible() const noexcept { return (properties.capabilities & MYDEV_CAPABILITY_HOST_ACCESSIBLE) != 0; }
  // The host's kernels run on the memory itself, and do so fast.
  bool host_computes() const noexcept {
    return host_accessible() && (properties.capabilities & MYDEV_CAPABILITY_HOST_ACCESS_SLOW) == 0;
  }
  bool asynchronous() const noexcept { return (properties.capabilities & MYDEV_CAPABILITY_ASYNC) != 0; }
  bool launch_copies() const noexcept { return (properties.capabilities & MYDEV_CAPABILITY_LAUNCH_COPIES) != 0; }
  bool reaches(const Device& peer) const noexcept { return ((peers >> peer.index) & 1) != 0; }
};

// Number of devices; loads the driver. 0 if that fails: driver_error() (driver_life_cycle.h) then says why.
MYDEV_API int device_count() noexcept;

namespace detail {
MYDEV_API extern std::atomic<unsigned> loaded_device_count;  // 0 until the driver is loaded, and in a bad fork
MYDEV_API extern Device* const devices;
MYDEV_API Device& load_device(int index);
}  // namespace detail

// Raises INVALID_ARGUMENT naming the valid range. Fast: an array look-up once loaded.
inline Device& device(int index) {
  if (static_cast<unsigned>(index) < detail::loaded_device_count.load(std::memory_order_acquire)) [[likely]] {
    return detail::devices[index];
  }
  return detail::load_device(index);
}

inline int current_device() noexcept {
  return detail::current_device_index;
}
inline Device& current_device_object() {
  return device(current_device());
}
MYDEV_API void set_current_device(int index);               // checked
MYDEV_API int exchange_current_device(int index) noexcept;  // index < 0: no change; returns the previous; unchecked

// Returns what the driver knows of any pointer. The kind is ORDINARY if the driver does not know it, or none is loaded.
MYDEV_API mydev_pointer_info driver_pointer_info(const void* pointer) noexcept;

// Memory that the host is about to use; within one allocation.
struct HostRange {
  void* data;
  uint64_t bytes;
  uint32_t access;  // mydev_host_access bits
};

// Brackets host access to a device's memory; free if the driver needs no brackets. Raises the driver's failure.
class MYDEV_API HostAccess {
 public:
  explicit HostAccess(Device& device);  // to all of it
  // To these ranges, and more only if the driver opens no ranges. None of them is empty.
  HostAccess(Device& device, std::vector<HostRange> ranges);
  ~HostAccess();
  HostAccess(const HostAccess&) = delete;
  HostAccess& operator=(const HostAccess&) = delete;

 private:
  void end() noexcept;

  Device& device_;
  bool whole_ = true;
  std::vector<HostRange> open_;
};

namespace detail {
[[noreturn]] MYDEV_API void raise_driver_error(const Device& device, mydev_code code, const char* what);
}
// Turns a driver's failing code into an exception: "<what> failed on device 0: <driver's message> [CODE]".
inline void check_driver(const Device& device, mydev_code code, const char* what) {
  if (code != MYDEV_OK) [[unlikely]] {
    detail::raise_driver_error(device, code, what);
  }
}

}  // namespace mydev
