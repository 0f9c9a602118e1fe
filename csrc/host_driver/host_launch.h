// Launches on the host driver's streams: of records by their entries, and of the kernels of compiled modules, with the
// table of the extension that has these. Thread-safe.
#pragma once

#include "mydev/driver_extensions.h"

namespace mydev::host_driver {

mydev_code launch(mydev_stream stream, const mydev_kernel* kernel, mydev_frame* frame);
const mydev_compiler_extension& compiler_extension();

}  // namespace mydev::host_driver
