// Reads the properties that a driver gives for a device, checks them, and completes those that it leaves out.
#pragma once

#include <cstdint>
#include <string>

#include "mydev/driver.h"
#include "runtime/base/api.h"

namespace mydev {

// `spec` is the value of MYDEV_DRIVER, for messages. Fields that came with a later minor version, and that the driver
// does not fill in, have the values that mydev/driver.h says. Raises the driver's failure, and FAILED_PRECONDITION for
// properties that contradict themselves.
MYDEV_API mydev_device_properties read_properties(const mydev_driver_api& driver, const std::string& spec,
                                                  int32_t index);

}  // namespace mydev
