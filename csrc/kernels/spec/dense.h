// Whether a buffer is dense and row-major, as many kernels want it.
#pragma once

#include "mydev/custom_call.h"

namespace mydev {

// True if the buffer is dense and row-major. Dimensions of size 1 and buffers without elements may have any strides.
inline bool is_dense(const mydev_buffer& buffer) noexcept {
  int64_t expected = 1;
  bool dense = true;
  for (int32_t d = buffer.rank - 1; d >= 0; --d) {
    const int64_t size = buffer.sizes[d];
    if (size == 0) return true;
    dense = dense && (size == 1 || buffer.strides[d] == expected);
    expected *= size;
  }
  return dense;
}

}  // namespace mydev
