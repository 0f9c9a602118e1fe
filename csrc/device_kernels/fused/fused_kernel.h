// The plans of the kernels whose body is data: steps that become one function. Thread-safe.
#pragma once

#include "device_kernels/base/portable_kernel.h"

namespace mydev::device_kernels {

Work plan_fused(const Request& request);
Work plan_small_steps(const Request& request);

}  // namespace mydev::device_kernels
