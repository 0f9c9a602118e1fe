// How busy, warm and fast a device is, if its driver reports it (mydev/driver_extensions.h, "telemetry").
#pragma once

#include "mydev/driver_extensions.h"
#include "runtime/base/api.h"
#include "runtime/driver/device.h"

namespace mydev {

// Returns the measure in the unit that `mydev_measure` says. Raises UNIMPLEMENTED, naming the driver, for a measure
// that it does not report. Thread-safe.
MYDEV_API double measure(const Device& device, mydev_measure what);

}  // namespace mydev
