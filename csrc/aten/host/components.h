// Tensors that are not dense but made of dense tensors, their components, by which host code gets at them.
//
// A sparse tensor has indices and values (sparse.h), a nested one a buffer (nested.h), a quantized one its memory and,
// quantized per channel, scales and zero points (quantized.h). Thread-safe as the tensors are.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

namespace mydev {

using Components = c10::SmallVector<at::Tensor, 3>;

// Whether a tensor, of whatever device, is made of components.
inline bool has_components(const at::Tensor& tensor) noexcept {
  using c10::DispatchKey;
  const c10::DispatchKeySet keys = tensor.key_set();
  return keys.has_any(c10::DispatchKeySet(
             {DispatchKey::Sparse, DispatchKey::SparseCsr, DispatchKey::NestedTensor, DispatchKey::Quantized})) &&
         !keys.has(DispatchKey::Python);  // a subclass in Python has its components there
}

// The components themselves, not aliases.
Components components(const at::Tensor& tensor);

// A tensor like `tensor` in all but its components, on their device. Nothing is checked or copied.
at::Tensor tensor_of(const Components& components, const at::Tensor& tensor);

// Gives `destination` what `like` says (sizes and the like) and these components.
void set_components(const at::Tensor& destination, const Components& components, const at::Tensor& like);

// All of a tensor's storage as one dense dimension, which is a view of it.
at::Tensor whole_storage(const at::Tensor& tensor, caffe2::TypeMeta type);

}  // namespace mydev
