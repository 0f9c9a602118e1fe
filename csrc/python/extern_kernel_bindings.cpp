// torch_mydev._C: operators of the device as extern kernels of graphs that Inductor compiled for the host.
//
// They take CPU tensors over the device's memory (aten/host/alias.h), as the generated code has them. Products write
// into `out`; convolutions, pooling and norms, whose layouts are the operator's to choose, return CPU tensors over
// fresh memory of the device. Builtin functions, since the generated code calls them many times in a step: device calls
// (aten/custom_call/device_call.h) do the same for any operator, and cost microseconds more. If an operand is not the
// device's memory, such as a constant of the graph, the CPU's operator runs.
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/baddbmm_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool2d_with_indices_backward.h>
#include <ATen/ops/mm_ops.h>
#include <ATen/ops/native_group_norm.h>
#include <ATen/ops/native_group_norm_backward.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/autograd/python_variable.h>

#include <array>
#include <string_view>

#include "aten/core/operator_policy.h"
#include "aten/host/alias.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace mydev {
namespace {

using at::IntArrayRef;
using at::Scalar;
using at::Tensor;

const Tensor& to_tensor(PyObject* object) {
  TORCH_CHECK_TYPE(THPVariable_Check(object), "expected a tensor, not a ", Py_TYPE(object)->tp_name);
  return THPVariable_Unpack(object);
}

// --- products --------------------------------------------------------------------------------------------------------

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
    for (size_t i = 0; i < kOperands; ++i) operands[i] = &to_tensor(arguments[i]);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
      PyObject* name = PyTuple_GET_ITEM(names, i);
      PyObject* value = arguments[count + i];
      if (PyUnicode_CompareWithASCIIString(name, "out") == 0) {
        out = &to_tensor(value);
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
};

// Calls Op::call(operands..., [beta, alpha,] out), on the device if that is possible.
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

// --- operators that return their results -----------------------------------------------------------------------------

// An argument of an operator, from Python; `on_device` becomes false if it is a tensor elsewhere.
template <class T>
struct Argument;

template <>
struct Argument<const Tensor&> {
  Tensor value, device_value;
  explicit Argument(PyObject* object) : value(to_tensor(object)) {}
  void move_to_device(bool& on_device) {
    device_value = device_alias(value);
    on_device &= device_value.defined();
  }
  const Tensor& get(bool on_device) const { return on_device ? device_value : value; }
};

template <>
struct Argument<const std::optional<Tensor>&> {
  std::optional<Tensor> value, device_value;
  explicit Argument(PyObject* object) {
    if (object != Py_None) value = to_tensor(object);
  }
  void move_to_device(bool& on_device) {
    if (!value.has_value()) return;
    device_value = device_alias(*value);
    on_device &= device_value->defined();
  }
  const std::optional<Tensor>& get(bool on_device) const { return on_device ? device_value : value; }
};

// Arguments that are no tensors.
template <class T>
struct ValueArgument {
  T value;
  void move_to_device(bool&) {}
  const T& get(bool) const { return value; }
};

template <>
struct Argument<bool> : ValueArgument<bool> {
  explicit Argument(PyObject* object) : ValueArgument{object == Py_True} {
    TORCH_CHECK_TYPE(PyBool_Check(object), "expected a bool, not a ", Py_TYPE(object)->tp_name);
  }
};

template <>
struct Argument<int64_t> : ValueArgument<int64_t> {
  explicit Argument(PyObject* object) : ValueArgument{py::cast<int64_t>(object)} {}
};

template <>
struct Argument<double> : ValueArgument<double> {
  explicit Argument(PyObject* object) : ValueArgument{py::cast<double>(object)} {}
};

template <>
struct Argument<std::optional<at::MemoryFormat>> : ValueArgument<std::optional<at::MemoryFormat>> {
  explicit Argument(PyObject* object) {
    if (object == Py_None) return;
    TORCH_CHECK_TYPE(THPMemoryFormat_Check(object), "expected a memory format, not a ", Py_TYPE(object)->tp_name);
    value = reinterpret_cast<THPMemoryFormat*>(object)->memory_format;
  }
};

template <class T>
c10::SmallVector<T, 3> to_list(PyObject* object) {
  TORCH_CHECK_TYPE(PyList_Check(object), "expected a list, not a ", Py_TYPE(object)->tp_name);
  c10::SmallVector<T, 3> list;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i) {
    list.push_back(Argument<T>(PyList_GET_ITEM(object, i)).value);
  }
  return list;
}

template <>
struct Argument<IntArrayRef> : ValueArgument<c10::SmallVector<int64_t, 3>> {
  explicit Argument(PyObject* object) : ValueArgument{to_list<int64_t>(object)} {}
};

template <>
struct Argument<at::OptionalIntArrayRef> : ValueArgument<std::optional<c10::SmallVector<int64_t, 3>>> {
  explicit Argument(PyObject* object)
      : ValueArgument{object == Py_None ? std::nullopt : std::optional(to_list<int64_t>(object))} {}
  at::OptionalIntArrayRef get(bool) const {
    return value.has_value() ? at::OptionalIntArrayRef(*value) : at::OptionalIntArrayRef();
  }
};

template <size_t kCount>
struct Argument<std::array<bool, kCount>> : ValueArgument<std::array<bool, kCount>> {
  explicit Argument(PyObject* object) {
    const auto list = to_list<bool>(object);
    TORCH_CHECK_VALUE(list.size() == kCount, "expected ", kCount, " bools, got ", list.size());
    std::copy(list.begin(), list.end(), this->value.begin());
  }
};

PyObject* to_python(const Tensor& result) {
  if (!result.defined()) Py_RETURN_NONE;
  return THPVariable_Wrap(alias_of_result(result));
}

template <class... Results>
PyObject* to_python(const std::tuple<Results...>& results) {
  return std::apply(
      [](const auto&... each) {
        PyObject* tuple = PyTuple_New(sizeof...(each));
        if (tuple == nullptr) throw py::error_already_set();
        Py_ssize_t index = 0;
        (PyTuple_SET_ITEM(tuple, index++, to_python(each)), ...);
        return tuple;
      },
      results);
}

template <auto kOperator>
struct OperatorCall;

template <class Result, class... Args, Result (*kOperator)(Args...)>
struct OperatorCall<kOperator> {
  // All arguments, in order; by name those that are keyword-only, of which there is at most one.
  static PyObject* run(PyObject*, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
    HANDLE_TH_ERRORS
    if (names != nullptr) count += PyTuple_GET_SIZE(names);
    TORCH_CHECK_TYPE(count == sizeof...(Args), "takes ", sizeof...(Args), " arguments, got ", count);
    return run_with(arguments, std::index_sequence_for<Args...>());
    END_HANDLE_TH_ERRORS
  }

 private:
  template <size_t... kIndices>
  static PyObject* run_with(PyObject* const* arguments, std::index_sequence<kIndices...>) {
    std::tuple<Argument<Args>...> values(arguments[kIndices]...);
    bool on_device = inside_host_scope();
    if (on_device) (std::get<kIndices>(values).move_to_device(on_device), ...);
    const Result result = [&] {
      const py::gil_scoped_release no_gil;
      Result returned = kOperator(std::get<kIndices>(values).get(on_device)...);
      if (on_device) finish_device_work();
      return returned;
    }();
    return to_python(result);
  }
};

// The kernels of group normalization take images that are contiguous in one memory format, and do not check it.
std::tuple<Tensor, Tensor, Tensor> group_norm(const Tensor& input, const std::optional<Tensor>& weight,
                                              const std::optional<Tensor>& bias, int64_t images, int64_t channels,
                                              int64_t pixels, int64_t groups, double epsilon) {
  return at::native_group_norm(input.contiguous(input.suggest_memory_format()), weight, bias, images, channels, pixels,
                               groups, epsilon);
}

std::tuple<Tensor, Tensor, Tensor> group_norm_backward(const Tensor& grad, const Tensor& input, const Tensor& mean,
                                                       const Tensor& rstd, const std::optional<Tensor>& weight,
                                                       int64_t images, int64_t channels, int64_t pixels, int64_t groups,
                                                       std::array<bool, 3> wanted) {
  const at::MemoryFormat format = input.suggest_memory_format();
  return at::native_group_norm_backward(grad.contiguous(format), input.contiguous(format), mean, rstd, weight, images,
                                        channels, pixels, groups, wanted);
}

// --- the table -------------------------------------------------------------------------------------------------------

// The list of such operators, which torch_mydev/compile/device_kernels.py reads. Each is an operator of aten, of its
// default overload.
struct DeviceKernel {
  PyMethodDef method;  // its name is "device_" and the operator's
  bool is_product;     // takes out=, alpha= and beta=; others take all arguments, and return the results
  GraphPolicy traits;
  const char* op() const { return method.ml_name + std::string_view("device_").size(); }
};

PyMethodDef method(const char* name, void* function) {
  return {name, reinterpret_cast<PyCFunction>(function), METH_FASTCALL | METH_KEYWORDS,
          "An operator of the device, on CPU tensors over its memory."};
}

template <class Op, size_t kOperands, bool kScaled>
DeviceKernel product(const char* name, GraphPolicy traits) {
  return {method(name, reinterpret_cast<void*>(&run_product<Op, kOperands, kScaled>)), /*is_product=*/true, traits};
}

template <auto kOperator>
DeviceKernel operator_call(const char* name, GraphPolicy traits) {
  return {method(name, reinterpret_cast<void*>(&OperatorCall<kOperator>::run)), /*is_product=*/false, traits};
}

DeviceKernel device_kernels[] = {
    product<at::_ops::mm_out, 2, false>("device_mm", policy::kProductInGraph),
    product<at::_ops::bmm_out, 2, false>("device_bmm", policy::kProductInGraph),
    product<at::_ops::addmm_out, 3, true>("device_addmm", policy::kProductInGraph),
    product<at::_ops::baddbmm_out, 3, true>("device_baddbmm", policy::kProductInGraph),
    operator_call<&at::clone>("device_clone", policy::kCloneInGraph),
    operator_call<&at::convolution>("device_convolution", policy::kConvolutionInGraph),
    operator_call<&at::convolution_backward>("device_convolution_backward", policy::kConvolutionBackwardInGraph),
    operator_call<&group_norm>("device_native_group_norm", policy::kGroupNormInGraph),
    operator_call<&group_norm_backward>("device_native_group_norm_backward", policy::kGroupNormInGraph),
    operator_call<&at::max_pool2d_with_indices>("device_max_pool2d_with_indices", policy::kMaxPoolInGraph),
    operator_call<&at::max_pool2d_with_indices_backward>("device_max_pool2d_with_indices_backward",
                                                         policy::kMaxPoolInGraph),
};

}  // namespace

void bind_extern_kernels(py::module_& m) {
  using py::literals::operator""_a;
  py::list rows;
  for (DeviceKernel& kernel : device_kernels) {
    const GraphPolicy& traits = kernel.traits;
    rows.append(py::dict(
        "op"_a = kernel.op(),
        "call"_a = py::reinterpret_steal<py::object>(PyCFunction_NewEx(&kernel.method, nullptr, nullptr)),
        "is_product"_a = kernel.is_product, "faster"_a = traits.faster, "better_frozen"_a = traits.better_frozen,
        "whole"_a = traits.whole, "trusts_layouts"_a = traits.trusts_layouts, "images"_a = traits.images));
  }
  m.attr("device_kernels") = rows;
  m.attr("not_in_kernels") = py::frozenset(py::cast(policy::kNotInKernels));
}

}  // namespace mydev
