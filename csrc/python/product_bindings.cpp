// torch_mydev._C: the device's matrix products as extern kernels of graphs that Inductor compiled for the host.
//
// They take CPU tensors over the device's memory (aten/alias.h), as the generated code has them, and write into `out`.
// Builtin functions, since the generated code calls them many times in a step. Operands that are not the device's
// memory, such as constants of the graph, go to the CPU's product.
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/baddbmm_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/mm_ops.h>
#include <torch/csrc/autograd/python_variable.h>

#include <array>

#include "aten/alias.h"
#include "python/bindings.h"
#include "runtime/stream.h"

namespace py = pybind11;

namespace mydev {
namespace {

using at::Scalar;
using at::Tensor;

Scalar to_scalar(PyObject* value) {
  return PyLong_Check(value) ? Scalar(py::cast<int64_t>(value)) : Scalar(py::cast<double>(value));
}

// kOperands tensors by position; out, alpha and beta by name.
template <size_t kOperands>
struct ProductCall {
  std::array<const Tensor*, kOperands> operands;
  const Tensor* out = nullptr;
  Scalar alpha = 1, beta = 1;

  ProductCall(PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
    TORCH_CHECK_TYPE(count == static_cast<Py_ssize_t>(kOperands) && names != nullptr, "takes ", kOperands,
                     " tensors and out=");
    for (size_t i = 0; i < kOperands; ++i) operands[i] = &tensor(arguments[i]);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
      PyObject* name = PyTuple_GET_ITEM(names, i);
      PyObject* value = arguments[count + i];
      if (PyUnicode_CompareWithASCIIString(name, "out") == 0) {
        out = &tensor(value);
      } else if (PyUnicode_CompareWithASCIIString(name, "alpha") == 0) {
        alpha = to_scalar(value);
      } else {
        TORCH_CHECK_TYPE(PyUnicode_CompareWithASCIIString(name, "beta") == 0, "unknown argument ",
                         PyUnicode_AsUTF8(name));
        beta = to_scalar(value);
      }
    }
    TORCH_CHECK_TYPE(out != nullptr, "out= is missing");
  }

  static const Tensor& tensor(PyObject* object) {
    TORCH_CHECK_TYPE(THPVariable_Check(object), "expected a tensor, not a ", Py_TYPE(object)->tp_name);
    return THPVariable_Unpack(object);
  }
};

// Op::call(operands..., [beta, alpha,] out) on the device where it can be.
template <class Op, size_t kOperands, bool kScaled>
PyObject* run_product(PyObject*, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  HANDLE_TH_ERRORS
  const ProductCall<kOperands> call(arguments, count, names);
  std::array<Tensor, kOperands + 1> device;
  bool on_device = inside_host_scope();
  for (size_t i = 0; on_device && i <= kOperands; ++i) {
    device[i] = device_alias(i < kOperands ? *call.operands[i] : *call.out);
    on_device = device[i].defined();
  }
  if (!on_device) {
    for (size_t i = 0; i < kOperands; ++i) device[i] = *call.operands[i];
    device[kOperands] = *call.out;
  }
  {
    const py::gil_scoped_release no_gil;
    if constexpr (kScaled) {
      Op::call(device[0], device[1], device[2], call.beta, call.alpha, device[3]);
    } else {
      Op::call(device[0], device[1], device[2]);
    }
    if (on_device) finish_device_work();
  }
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

template <class Op, size_t kOperands, bool kScaled>
PyMethodDef product(const char* name) {
  auto* function = reinterpret_cast<void*>(&run_product<Op, kOperands, kScaled>);
  return {name, reinterpret_cast<PyCFunction>(function), METH_FASTCALL | METH_KEYWORDS,
          "A matrix product of the device, on CPU tensors over its memory."};
}

PyMethodDef products[] = {
    product<at::_ops::mm_out, 2, false>("device_mm"), product<at::_ops::bmm_out, 2, false>("device_bmm"),
    product<at::_ops::addmm_out, 3, true>("device_addmm"), product<at::_ops::baddbmm_out, 3, true>("device_baddbmm")};

}  // namespace

void bind_product(py::module_& m) {
  for (PyMethodDef& method : products) {
    m.attr(method.ml_name) = py::reinterpret_steal<py::object>(PyCFunction_NewEx(&method, nullptr, nullptr));
  }
}

}  // namespace mydev
