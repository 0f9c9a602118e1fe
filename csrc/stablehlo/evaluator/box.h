// Copying parts of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/api.h"

namespace mydev::stablehlo {

// Copies a box of `sizes` elements of one array into another. Both begin at its first element; strides are in elements.
MYDEV_API void copy_box(const std::vector<int64_t>& sizes, const std::byte* from,
                        const std::vector<int64_t>& from_strides, std::byte* to, const std::vector<int64_t>& to_strides,
                        int64_t element_bytes);

}  // namespace mydev::stablehlo
