// The bytes of an element, for drivers that copy by strides.
#pragma once

#include <cstdint>

namespace mydev::driver_support {

// Raises INVALID_ARGUMENT for what has no elements of a known size.
int64_t element_size(int16_t dtype);

}  // namespace mydev::driver_support
