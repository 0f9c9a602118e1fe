// The device properties of driver.h 1.1 beside memory: which machine it is, and which dtypes that computes with.
#pragma once

#include <cstdint>

#include "mydev/driver.h"

namespace mydev::host_driver {

// Fills in uuid, architecture and native_dtypes.
void describe_hardware(int32_t device, mydev_device_properties& out);

}  // namespace mydev::host_driver
