// What a driver says of a device: checked, and completed where it says nothing.
#pragma once

#include <cstdint>
#include <string>

#include "mydev/driver.h"

namespace mydev {

// `spec` is what MYDEV_DRIVER says, for messages. Fields that came with a later minor version, and that the driver does
// not fill in, have the values that mydev/driver.h says. Raises what the driver fails with, and FAILED_PRECONDITION for
// properties that contradict themselves.
mydev_device_properties read_properties(const mydev_driver_api& driver, const std::string& spec, int32_t index);

}  // namespace mydev
