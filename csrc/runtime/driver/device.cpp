#include "runtime/driver/device.h"

#include <pthread.h>

#include <array>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/base/config.h"
#include "runtime/base/device_name.h"
#include "runtime/base/status.h"
#include "runtime/driver/driver_life_cycle.h"

namespace mydev {

namespace {

std::array<Device, kMaxDevices> device_table;
static_assert(kMaxDevices <= 64, "Device::peers has a bit for each");

// Runs alone in the child: devices that were found before fail from now on, and no more are found.
void mark_forked_child() {
  detail::loaded_device_count.store(0, std::memory_order_release);
  for (Device& device : device_table) {
    device.driver = &forked_driver();
  }
  detail::forget_current_streams();
}

// Fills the table from the driver, once. False without a driver.
bool fill_table() noexcept {
  const LoadedDriver* driver = load_driver_once();
  if (driver == nullptr) {
    return false;
  }
  static std::once_flag once;
  std::call_once(once, [&] {
    for (size_t index = 0; index < driver->devices.size(); ++index) {
      device_table[index] = Device{static_cast<int>(index), driver->api, driver->devices[index], driver->peers[index]};
    }
    ::pthread_atfork(nullptr, nullptr, mark_forked_child);
    detail::loaded_device_count.store(static_cast<unsigned>(driver->devices.size()), std::memory_order_release);
  });
  return true;
}

}  // namespace

namespace detail {

std::atomic<unsigned> loaded_device_count{0};
Device* const devices = device_table.data();

Device& load_device(int index) {
  if (!fill_table()) {
    raise_driver_missing();
  }
  const int count = static_cast<int>(loaded_device_count.load(std::memory_order_acquire));
  MYDEV_CHECK(count > 0, MYDEV_FAILED_PRECONDITION, "no ", device_name(), " device: driver '",
              config_string("MYDEV_DRIVER"), "' finds no hardware");
  MYDEV_CHECK(index >= 0 && index < count, MYDEV_INVALID_ARGUMENT, "invalid device index ", index, ": there ",
              count == 1 ? "is 1 " : "are " + std::to_string(count) + " ", device_name(), " device",
              count == 1 ? ", number 0" : "s, numbered 0 to " + std::to_string(count - 1));
  return devices[index];
}

void raise_driver_error(const Device& device, mydev_code code, const char* what) {
  raise(code,
        std::string(what) + " failed on device " + device_text(device.index) + ": " + device.driver->last_error() +
            " [" + code_name(code) + "]",
        ErrorOwner::kDriver);
}

}  // namespace detail

int device_count() noexcept {
  fill_table();
  return static_cast<int>(detail::loaded_device_count.load(std::memory_order_acquire));
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

mydev_pointer_info driver_pointer_info(const void* pointer) noexcept {
  mydev_pointer_info info{};
  info.struct_size = sizeof(info);
  info.device = -1;
  if (!driver_loaded() || device_count() == 0) return info;
  const mydev_driver_api& driver = *detail::devices[0].driver;
  if (driver.pointer_info == nullptr || driver.pointer_info(pointer, &info) != MYDEV_OK) {
    info.kind = MYDEV_MEMORY_ORDINARY;
  }
  if (info.kind != MYDEV_MEMORY_DEVICE) info.device = -1;
  return info;
}

namespace {
constexpr char kOpening[] = "beginning host access";

void open_all(const Device& device) {
  if (device.driver->host_access_begin == nullptr) return;
  check_driver(device, device.driver->host_access_begin(device.index), kOpening);
}
}  // namespace

HostAccess::HostAccess(Device& device) : device_(device) {
  open_all(device);
}

HostAccess::HostAccess(Device& device, std::vector<HostRange> ranges)
    : device_(device), whole_(device.driver->host_access_begin_range == nullptr) {
  if (whole_) {
    open_all(device);
    return;
  }
  size_t opened = 0;
  try {
    for (; opened < ranges.size(); ++opened) {
      const HostRange& range = ranges[opened];
      check_driver(device, device.driver->host_access_begin_range(device.index, range.data, range.bytes, range.access),
                   kOpening);
    }
  } catch (...) {
    ranges.resize(opened);
    open_ = std::move(ranges);
    end();
    throw;
  }
  open_ = std::move(ranges);
}

HostAccess::~HostAccess() {
  end();
}

void HostAccess::end() noexcept {
  const mydev_driver_api& driver = *device_.driver;
  if (whole_) {
    if (driver.host_access_end != nullptr) driver.host_access_end(device_.index);
    return;
  }
  for (const HostRange& range : open_) {
    driver.host_access_end_range(device_.index, range.data, range.bytes, range.access);
  }
}

}  // namespace mydev
