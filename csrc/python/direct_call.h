// Calls from Python that go straight to a custom call's kernel, past PyTorch's dispatcher.
//
// The dispatcher's own binding costs more than a small kernel. A call goes straight when nothing else could want to see
// it: tensors of the device that are no subclass and need no derivative, no mode, no transformation, no profiler or
// trace on the thread. All others go through the dispatcher, with the same results.
//
// A direct function is a builtin function of Python with a state of its own, see DirectFunction.
#pragma once

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>

#include "aten/core/device_type.h"

namespace mydev {

namespace detail {
// Autocast does nothing to a custom call.
inline constexpr c10::DispatchKeySet kDirectTensor({kDispatchKey, c10::DispatchKey::AutogradPrivateUse1,
                                                    c10::DispatchKey::ADInplaceOrView,
                                                    c10::DispatchKey::AutocastPrivateUse1});
inline constexpr c10::DispatchKeySet kDirectThread({c10::DispatchKey::BackendSelect,
                                                    c10::DispatchKey::ADInplaceOrView});

// Set difference by bits: DispatchKeySet's own keeps those of backends.
inline bool within(c10::DispatchKeySet keys, c10::DispatchKeySet limit) {
  return (keys.raw_repr() & ~limit.raw_repr()) == 0;
}
}  // namespace detail

inline bool nobody_watches() {
  const c10::DispatchKeySet included = c10::impl::tls_local_dispatch_key_set().included_;
  return detail::within(included, detail::kDirectThread) && !at::impl::torch_function_mode_enabled() &&
         !at::hasCallbacks();
}

inline bool is_direct_tensor(PyObject* object, bool grad_mode) {
  if (!THPVariable_CheckExact(object)) return false;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  return detail::within(tensor.key_set(), detail::kDirectTensor) && !(grad_mode && tensor.requires_grad()) &&
         !tensor._fw_grad(/*level=*/0).defined();
}

inline bool may_call_directly(PyObject* const* operands, Py_ssize_t count) {
  if (!nobody_watches()) return false;
  const bool grad_mode = c10::GradMode::is_enabled();
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!is_direct_tensor(operands[i], grad_mode)) return false;
  }
  return true;
}

using DirectTensors = c10::SmallVector<at::Tensor, 4>;

enum class Structure : uint8_t { kSingle, kTuple, kList };  // of what a function returns

inline PyObject* wrap_results(DirectTensors& results, Structure structure) {
  if (structure == Structure::kSingle) return THPVariable_Wrap(std::move(results[0]));
  const auto size = static_cast<Py_ssize_t>(results.size());
  const bool list = structure == Structure::kList;
  auto sequence = pybind11::reinterpret_steal<pybind11::object>(list ? PyList_New(size) : PyTuple_New(size));
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = THPVariable_Wrap(std::move(results[static_cast<size_t>(i)]));
    if (list) {
      PyList_SET_ITEM(sequence.ptr(), i, item);
    } else {
      PyTuple_SET_ITEM(sequence.ptr(), i, item);
    }
  }
  return sequence.release().ptr();
}

// A builtin that takes operands by position and attributes by keyword. Its State has
//   static constexpr const char *kName, *kDoc;
//   pybind11::object dispatch;           called where the call must not go straight
//   struct Call;                         what is made of one call's attributes
//   bool prepare(PyObject* const* attributes, PyObject* names, Py_ssize_t num_operands, Call& call);
//                                        false: not such a call; the dispatcher's to serve or refuse
//   DirectTensors run(c10::ArrayRef<at::Tensor> operands, Call& call);   without the GIL
//   Structure structure(size_t num_results);
template <typename State>
class DirectFunction {
 public:
  static pybind11::object make(std::unique_ptr<State> state) {
    static PyMethodDef method = {State::kName, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&call)),
                                 METH_FASTCALL | METH_KEYWORDS, State::kDoc};
    const pybind11::capsule capsule(state.release(), State::kName, [](PyObject* self) { delete &state_of(self); });
    return pybind11::reinterpret_steal<pybind11::object>(PyCFunction_NewEx(&method, capsule.ptr(), nullptr));
  }
  // The state of a function that make() gave.
  static State& state(const pybind11::handle& function) { return state_of(PyCFunction_GetSelf(function.ptr())); }

 private:
  static State& state_of(PyObject* capsule) {
    return *static_cast<State*>(PyCapsule_GetPointer(capsule, State::kName));
  }

  static PyObject* call(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
    HANDLE_TH_ERRORS
    State& state = state_of(self);
    typename State::Call call;
    if (!may_call_directly(arguments, count) || !state.prepare(arguments + count, names, count, call)) {
      return PyObject_Vectorcall(state.dispatch.ptr(), arguments, static_cast<size_t>(count), names);
    }
    DirectTensors operands;
    for (Py_ssize_t i = 0; i < count; ++i) operands.push_back(THPVariable_Unpack(arguments[i]));
    DirectTensors results;
    {
      const pybind11::gil_scoped_release no_gil;
      results = state.run(operands, call);
    }
    return wrap_results(results, state.structure(results.size()));
    END_HANDLE_TH_ERRORS
  }
};

}  // namespace mydev
