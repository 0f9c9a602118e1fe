// Calls from Python that go straight to a custom call's kernel, past PyTorch's dispatcher.
//
// The dispatcher's own binding costs more than a small kernel. A call goes straight when nothing else could want to see
// it: plain tensors of the device without a derivative, no mode, no transformation, no profiler or trace on the thread.
// Whoever makes direct calls has the ordinary way through the dispatcher for all others, with the same results.
#pragma once

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/python_variable.h>

#include "aten/core/device_type.h"

namespace mydev {

namespace detail {
// Autocast does nothing to a custom call.
inline constexpr c10::DispatchKeySet kPlainTensor({kDispatchKey, c10::DispatchKey::AutogradPrivateUse1,
                                                   c10::DispatchKey::ADInplaceOrView,
                                                   c10::DispatchKey::AutocastPrivateUse1});
inline constexpr c10::DispatchKeySet kPlainThread({c10::DispatchKey::BackendSelect, c10::DispatchKey::ADInplaceOrView});

// Set difference by bits: DispatchKeySet's own keeps those of backends.
inline bool within(c10::DispatchKeySet keys, c10::DispatchKeySet limit) {
  return (keys.raw_repr() & ~limit.raw_repr()) == 0;
}
}  // namespace detail

inline bool nobody_watches() {
  const c10::DispatchKeySet included = c10::impl::tls_local_dispatch_key_set().included_;
  return detail::within(included, detail::kPlainThread) && !at::impl::torch_function_mode_enabled() &&
         !at::hasCallbacks();
}

inline bool is_plain_tensor(PyObject* object, bool grad_mode) {
  if (!THPVariable_CheckExact(object)) return false;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  return detail::within(tensor.key_set(), detail::kPlainTensor) && !(grad_mode && tensor.requires_grad()) &&
         !tensor._fw_grad(/*level=*/0).defined();
}

inline bool may_call_directly(PyObject* const* operands, Py_ssize_t count) {
  if (!nobody_watches()) return false;
  const bool grad_mode = c10::GradMode::is_enabled();
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!is_plain_tensor(operands[i], grad_mode)) return false;
  }
  return true;
}

}  // namespace mydev
