// The driver's extension "compiler": modules of CUDA C by NVRTC, their kernels, and launches of these. Thread-safe.
#pragma once

#include "mydev/driver_extensions.h"

namespace mydev::cuda_driver {

const mydev_compiler_extension& compiler_extension();

}  // namespace mydev::cuda_driver
