// The built-in kernel families. Each family is a file of its own; it gives its records in a span, in the best variant for
// the instruction set at hand, and documents its frames at its top and in each record's `doc`.
//
// To add a family: write the file, declare its span here, and name it in kernel_registry.cpp's table.
#pragma once

#include <span>

#include "mydev/custom_call.h"

namespace mydev::kernels {}
