// Steps of torch.optim that are one launch (device/fused_steps.py).
#include <ATen/ops/_foreach_add.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "aten/host/native_or_host.h"
#include "aten/ops/pointwise/optimizer_ops.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace mydev {
namespace {

// Whether the kernel takes these parameters and gradients: tensors of one device and no subclass, since DTensor and the
// like have operators of their own. `one_dtype` says whether all are of one.
struct FusedStep {
  bool fits = false;
  bool one_dtype = true;
};

FusedStep fused_step(bool is_adam, const py::object& parameters, const py::object& gradients) {
  FusedStep result;
  if (!PyList_Check(parameters.ptr()) || !PyList_Check(gradients.ptr())) return result;
  const Py_ssize_t count = PyList_GET_SIZE(parameters.ptr());
  if (count == 0 || PyList_GET_SIZE(gradients.ptr()) != count) return result;
  const at::Tensor* first = nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* object = PyList_GET_ITEM(parameters.ptr(), i);
    PyObject* gradient_object = PyList_GET_ITEM(gradients.ptr(), i);
    if (!THPVariable_CheckExact(object) || !THPVariable_Check(gradient_object)) return result;
    const at::Tensor& parameter = THPVariable_Unpack(object);
    const at::Tensor& gradient = THPVariable_Unpack(gradient_object);
    if (first == nullptr) first = &parameter;
    if (!on_device(parameter) || parameter.device() != first->device() || !is_real_float(parameter.scalar_type()) ||
        gradient.scalar_type() != parameter.scalar_type() || gradient.layout() != at::kStrided) {
      return result;
    }
    result.one_dtype = result.one_dtype && parameter.scalar_type() == first->scalar_type();
  }
  result.fits = steps_in_one_launch(is_adam, first->device().index());
  return result;
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
  m.def("fused_step", wrap_pybind_function([](bool is_adam, const py::object& parameters, const py::object& gradients) {
          const FusedStep step = fused_step(is_adam, parameters, gradients);
          return std::pair(step.fits, step.one_dtype);
        }));
  m.def("count_steps", wrap_pybind_function(count_steps));
}

}  // namespace mydev
