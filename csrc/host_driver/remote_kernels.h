// The kernels of a remote device: those of the host's library, as records of the driver's own, since the host may not
// run them on memory that it does not reach. And "conformance.scale", which the conformance suite asks such a device
// for. Thread-safe once loaded.
#pragma once

#include "mydev/custom_call.h"

namespace mydev::host_driver {

// From the driver's own directory. Raises FAILED_PRECONDITION if the library cannot be loaded.
void load_remote_kernels();

// nullptr before that, or if there is none of that name.
const mydev_kernel* remote_kernel(const char* name);

// All of them, NULL-terminated.
const mydev_kernel* const* remote_kernels();

}  // namespace mydev::host_driver
