// A kernel's own copies: mydev.copy called from inside another kernel's run, for operands that must change dtype or
// strides before or after the main work.
#pragma once

#include "mydev/custom_call.h"

namespace mydev::kernels {

// Sizes must be equal; dtypes and strides need not. Throws mydev::Error that names `kernel`.
void nested_copy(const mydev_frame& outer, const char* kernel, const mydev_buffer& to, const mydev_buffer& from);

}  // namespace mydev::kernels
