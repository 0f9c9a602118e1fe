// A vector of indices, 32 or 64 bits, as an operand of a kernel.
#pragma once

#include <cstdio>

#include "host_kernels/isa/simd/tensor_list.h"

namespace mydev::kernels::MYDEV_ISA {
namespace {

struct Indices {
  const mydev_buffer& buffer;
  int64_t stride = buffer.rank > 0 ? buffer.strides[0] : 0;
  bool supported() const { return buffer.dtype == MYDEV_S64 || buffer.dtype == MYDEV_S32; }
  int64_t operator[](int64_t i) const {
    return buffer.dtype == MYDEV_S64 ? static_cast<const int64_t*>(buffer.data)[i * stride]
                                     : static_cast<const int32_t*>(buffer.data)[i * stride];
  }
  // Returns the position of the first index outside [0, limit), or -1.
  int64_t find_bad(int64_t limit) const {
    const int64_t count = element_count(buffer);
    for (int64_t i = 0; i < count; ++i) {
      if ((*this)[i] < 0 || (*this)[i] >= limit) return i;
    }
    return -1;
  }
};

inline mydev_code refuse_index(const mydev_frame* frame, int64_t index, int64_t limit) {
  char message[128];
  std::snprintf(message, sizeof(message), "index out of range in self: index %lld, size %lld",
                static_cast<long long>(index), static_cast<long long>(limit));
  frame->host->set_error(frame, message);
  return MYDEV_OUT_OF_RANGE;
}

}  // namespace
}  // namespace mydev::kernels::MYDEV_ISA
