// Tensors as buffers of a frame. A buffer borrows what it points to: the tensor, and sizes and strides that are given,
// must stay alive and unchanged until the launch returns.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "aten/core/dtype.h"

namespace mydev {

// Returns the buffer of a tensor that a kernel only reads. Memory that is shared until it is written (copy on write)
// stays shared.
inline mydev_buffer input_buffer_of(const at::TensorBase& tensor, const int64_t* sizes, const int64_t* strides,
                                    int32_t rank) {
  return {const_cast<void*>(tensor.unsafeGetTensorImpl()->data()), sizes, strides, rank,
          to_frame_dtype(tensor.scalar_type())};
}
inline mydev_buffer input_buffer_of(const at::TensorBase& tensor, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  return input_buffer_of(tensor, sizes.data(), strides.data(), static_cast<int32_t>(sizes.size()));
}
inline mydev_buffer input_buffer_of(const at::TensorBase& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return input_buffer_of(tensor, impl->sizes(), impl->strides());
}

// Returns a tensor's memory under the caller's sizes and strides as a buffer that a kernel may write. Memory that was
// shared becomes the tensor's own.
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

// Lets a kernel write the first of the buffers that were made as inputs of these tensors; nullptr for an absent one.
inline void make_writable(std::span<mydev_buffer> buffers, size_t num_outputs, c10::TensorImpl* const* tensors) {
  bool moved = false;
  for (size_t i = 0; i < num_outputs; ++i) {
    if (tensors[i] == nullptr) continue;
    void* data = tensors[i]->mutable_data();
    moved |= data != buffers[i].data;
    buffers[i].data = data;
  }
  if (!moved) [[likely]]
    return;
  for (size_t i = num_outputs; i < buffers.size(); ++i) {  // which may share an output's storage
    if (tensors[i] != nullptr) buffers[i].data = const_cast<void*>(tensors[i]->data());
  }
}

// An operand that is not given: no data, no dimensions.
inline mydev_buffer absent_buffer(mydev_dtype dtype) {
  return {nullptr, nullptr, nullptr, 0, dtype};
}

}  // namespace mydev
