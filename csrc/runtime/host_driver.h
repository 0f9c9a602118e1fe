// The built-in host driver: this machine's processor and memory as a device.
#pragma once

#include "mydev/driver.h"

namespace mydev {

// What a driver's mydev_driver_query returns.
const mydev_driver_api* host_driver_query(uint32_t version_major, uint32_t version_minor) noexcept;

}  // namespace mydev
