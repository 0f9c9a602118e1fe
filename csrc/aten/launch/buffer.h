// Tensors as buffers of a frame. What a buffer points to is borrowed: the tensor, and sizes and strides that are given,
// must stay alive and unchanged until the launch returns.
#pragma once

#include <ATen/core/Tensor.h>

#include "aten/core/dtype.h"

namespace mydev {

// A tensor's memory under sizes and strides of the caller's. Buffers may be written to, so memory that is shared until
// it is written (copy on write) becomes the tensor's own.
inline mydev_buffer buffer_of(const at::TensorBase& tensor, const int64_t* sizes, const int64_t* strides,
                              int32_t rank) {
  return {tensor.unsafeGetTensorImpl()->mutable_data(), sizes, strides, rank, to_frame_dtype(tensor.scalar_type())};
}
inline mydev_buffer buffer_of(const at::TensorBase& tensor, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  return buffer_of(tensor, sizes.data(), strides.data(), static_cast<int32_t>(sizes.size()));
}
inline mydev_buffer buffer_of(const at::TensorBase& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return buffer_of(tensor, impl->sizes(), impl->strides());
}

// An operand that is not given: no data, no dimensions.
inline mydev_buffer absent_buffer(mydev_dtype dtype) {
  return {nullptr, nullptr, nullptr, 0, dtype};
}

}  // namespace mydev
