// How busy, warm and fast a device is, where its driver tells (mydev/driver_extensions.h, "telemetry").
#pragma once

#include "mydev/driver_extensions.h"
#include "runtime/driver/device.h"

namespace mydev {

// In the unit that `mydev_measure` says. Raises UNIMPLEMENTED, naming the driver, for what it does not tell.
// Thread-safe.
double measure(const Device& device, mydev_measure what);

}  // namespace mydev
