// Steps of torch.optim that are one launch (device/fused_steps.py).
#include <ATen/ops/_foreach_add.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "aten/host/native_or_host.h"
#include "aten/launch/tensor_list_frame.h"
#include "aten/ops/pointwise/optimizer_ops.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace mydev {
namespace {

struct FusedStep {
  bool fits = false;
  bool one_dtype = true;
};

// The tensors of a list; nullopt if it is no list, or one of them is no tensor. None is an undefined tensor.
std::optional<std::vector<at::Tensor>> tensors_of(py::handle list) {
  if (!PyList_Check(list.ptr())) return std::nullopt;
  std::vector<at::Tensor> tensors;
  tensors.reserve(static_cast<size_t>(PyList_GET_SIZE(list.ptr())));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.ptr()); ++i) {
    PyObject* const item = PyList_GET_ITEM(list.ptr(), i);
    if (item != Py_None && !THPVariable_Check(item)) return std::nullopt;
    tensors.push_back(item == Py_None ? at::Tensor() : THPVariable_Unpack(item));
  }
  return tensors;
}

bool are_plain(py::handle parameters) {
  return PyList_Check(parameters.ptr()) && std::ranges::all_of(parameters, [](const py::handle& parameter) {
           return THPVariable_CheckExact(parameter.ptr());
         });
}

// Whether the kernel takes a step: parameters, gradients and then lists of state, which may be empty. Parameters are of
// one device and no subclass, since DTensor and the like have operators of their own; gradients and state lie as they
// do and have their dtypes; nothing is to be differentiated. `one_dtype` says whether all parameters are of one.
FusedStep fused_step(bool is_adam, const py::args& lists) {
  FusedStep result;
  if (!are_plain(lists[0])) return result;
  const auto parameters = tensors_of(lists[0]);
  if (!parameters || parameters->empty()) return result;
  const at::Tensor& first = parameters->front();
  for (const at::Tensor& parameter : *parameters) {
    if (!on_device(parameter) || parameter.device() != first.device() || !is_real_float(parameter.scalar_type()) ||
        !laid_out_alike(parameter, parameter) || (c10::GradMode::is_enabled() && parameter.requires_grad())) {
      return result;
    }
    result.one_dtype = result.one_dtype && parameter.scalar_type() == first.scalar_type();
  }
  for (size_t list = 1; list < lists.size(); ++list) {
    const auto tensors = tensors_of(lists[list]);
    const bool is_state = list > 1;
    if (!tensors || (tensors->size() != parameters->size() && !(is_state && tensors->empty()))) return result;
    for (size_t i = 0; i < tensors->size(); ++i) {
      const at::Tensor& tensor = (*tensors)[i];
      if (is_state && !tensor.defined()) continue;
      if (!tensor.defined() || tensor.layout() != at::kStrided || !laid_out_alike(tensor, (*parameters)[i]) ||
          tensor.scalar_type() != (*parameters)[i].scalar_type() ||
          (c10::GradMode::is_enabled() && tensor.requires_grad())) {
        return result;
      }
    }
  }
  result.fits = steps_in_one_launch(is_adam, first.device().index());
  return result;
}

// Autograd sees what is written, which PyTorch's fused operators do not tell it.
void bump_versions(const py::args& lists) {
  for (const py::handle& list : lists) {
    for (const at::Tensor& tensor : list.cast<std::vector<at::Tensor>>()) tensor.unsafeGetTensorImpl()->bump_version();
  }
}

bool is_plain_count(const at::Tensor& step) {
  return step.is_cpu() && step.scalar_type() == at::kFloat && step.numel() == 1 && step.layout() == at::kStrided &&
         !step.requires_grad();
}

// Adds 1 to each step. PyTorch's operator takes longer for the steps that torch.optim keeps on the CPU, one number to a
// tensor, than the kernel takes for all parameters.
void count_steps(const std::vector<at::Tensor>& steps) {
  if (c10::impl::dispatch_mode_enabled() || !std::ranges::all_of(steps, is_plain_count)) {
    at::_foreach_add_(steps, 1);
    return;
  }
  for (const at::Tensor& step : steps) {
    *step.mutable_data_ptr<float>() += 1;
    step.unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace

void bind_optimizers(py::module_& m) {
  m.def("fused_step", wrap_pybind_function([](bool is_adam, const py::args& lists) {
          const FusedStep step = fused_step(is_adam, lists);
          return std::pair(step.fits, step.one_dtype);
        }));
  m.def("bump_versions", wrap_pybind_function(bump_versions));
  m.def("count_steps", wrap_pybind_function(count_steps));
}

}  // namespace mydev
