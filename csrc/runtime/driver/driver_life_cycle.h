// The life of the process's one driver: chosen by MYDEV_DRIVER or choose_driver, loaded by the first call that needs
// it, refused in a forked child, finalized at exit. Thread-safe.
//
// A failure to load is remembered, and loading is not tried again. The driver's threads, locks and connections do not
// survive a fork. So a forked child of a process that had loaded the driver has none: calls that need it raise
// FAILED_PRECONDITION with the advice to use the spawn start method.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "mydev/driver.h"
#include "runtime/base/api.h"
#include "runtime/driver/driver_extensions.h"

namespace mydev {

struct LoadedDriver {
  const mydev_driver_api* api;
  std::span<const mydev_device_properties> devices;
  std::span<const uint64_t> peers;  // of each device: bit i, whether it copies to device i without the host
  std::span<const DriverExtension> extensions;
};

// Chooses the driver in place of MYDEV_DRIVER, whose form `spec` has. Raises INVALID_ARGUMENT for another form, and
// FAILED_PRECONDITION if another driver was needed before.
MYDEV_API void choose_driver(const std::string& spec);

// Loads the driver, unless that was done before. nullptr without one; driver_error() then says why. Both the driver and
// the properties live until the process ends.
MYDEV_API const LoadedDriver* load_driver_once() noexcept;
// For callers that load_driver_once gave nullptr.
[[noreturn]] MYDEV_API void raise_driver_missing();
// A driver whose functions all fail with the advice to spawn: for the devices that a forked child has inherited.
const mydev_driver_api& forked_driver() noexcept;

// Returns the driver's extension of that name; nullptr if the driver does not have it. It is also nullptr for the table
// of another driver, which only passes on what driver.h has.
MYDEV_API const DriverExtension* find_extension(const mydev_driver_api& driver, std::string_view name) noexcept;
template <typename Table>
const Table* extension_of(const mydev_driver_api& driver, std::string_view name) noexcept {
  const DriverExtension* const extension = find_extension(driver, name);
  return extension == nullptr ? nullptr : &extension->as<Table>();
}

// Why no driver is loaded ("" when all is well). Loads it.
MYDEV_API const char* driver_error() noexcept;
// True once a driver has been loaded in this process (not its forked children).
MYDEV_API bool driver_loaded() noexcept;
// True in a forked child whose parent had loaded the driver: nothing works there.
MYDEV_API bool in_bad_fork() noexcept;

}  // namespace mydev
