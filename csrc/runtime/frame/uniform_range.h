// The range of uniform random numbers, [low, high), as numbers of an element type.
#pragma once

#include "mydev/custom_call.h"
#include "runtime/base/api.h"

namespace mydev {

// The greatest number of a floating `dtype` below `high`, which is rounded to it first; `low` if that is greater. A
// uniform number that was computed with more digits may lie above it, and would be rounded to `high`.
MYDEV_API double greatest_below(mydev_dtype dtype, double low, double high) noexcept;

}  // namespace mydev
