// Questions about transformations of a program: vmap, torch.func's derivatives, forward-mode differentiation. They are
// for operators that are one kernel with a derivative of their own. Under a transformation that this derivative does
// not serve, they become the operators that they are made of, which every transformation knows.
#pragma once

#include <ATen/core/Tensor.h>

namespace mydev {

// Whether the tensor carries a tangent: forward-mode differentiation, of autograd's or torch.func's kind.
inline bool has_tangent(const at::Tensor& tensor) {
  return tensor.defined() && tensor._fw_grad(/*level=*/0).defined();
}

// Whether the tensor is one of torch.func's, of any transformation.
inline bool is_transformed(const at::Tensor& tensor) {
  return tensor.defined() && (tensor.key_set().has(c10::DispatchKey::FuncTorchGradWrapper) ||
                              tensor.key_set().has(c10::DispatchKey::FuncTorchBatched));
}

// Returns the keys with which a kernel for AutogradPrivateUse1 leaves an operator to core's own kernel, which it hides.
// Core's kernel is registered for all keys of autograd, of which AutogradOther has no backend. No key above autograd
// may be left: those have been through.
inline c10::DispatchKeySet with_core_autograd(c10::DispatchKeySet keys) {
  return (keys & c10::after_autograd_keyset).add(c10::DispatchKey::AutogradOther);
}

}  // namespace mydev
