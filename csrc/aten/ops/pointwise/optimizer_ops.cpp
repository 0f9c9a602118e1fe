// _fused_sgd_, _fused_adam_, _fused_adamw_, with the learning rate as a number or a tensor: one launch for all
// parameters.
#include "aten/ops/pointwise/optimizer_ops.h"

#include <ATen/Operators.h>

#include <unordered_map>

#include "aten/host/native_or_host.h"
#include "aten/launch/tensor_list_frame.h"
#include "aten/ops/optional_tensor.h"

namespace mydev {
namespace {

using at::Tensor;
using at::TensorList;

KernelRef sgd_kernel("mydev.fused_sgd");
KernelRef adam_kernel("mydev.fused_adam");

// The learning rate: a number, or a scalar on the device that the kernel reads.
struct LearningRate {
  double value;
  Tensor on_device;

  LearningRate(double number) : value(number) {}
  LearningRate(const Tensor& tensor) : value(tensor.is_cpu() ? tensor.item<double>() : 0) {
    if (!tensor.is_cpu()) on_device = tensor;
  }
};

bool is_device_scalar(const OptionalTensor& tensor, const Tensor& param) {
  return !given(tensor) || (on_device(*tensor) && tensor->device() == param.device() && tensor->numel() == 1 &&
                            (tensor->scalar_type() == at::kFloat || tensor->scalar_type() == at::kDouble));
}

bool can_step(TensorList params, TensorList grads, const LearningRate& lr, const OptionalTensor& grad_scale,
              const OptionalTensor& found_inf) {
  return !params.empty() && on_device(params[0]) && is_real_float(params[0].scalar_type()) &&
         corresponds(params, params) && corresponds(grads, params) &&
         grads[0].scalar_type() == params[0].scalar_type() && is_device_scalar(lr.on_device, params[0]) &&
         is_device_scalar(grad_scale, params[0]) && is_device_scalar(found_inf, params[0]);
}

// The CPU's kernels, too, go through each tensor as it lies in memory: they would step other elements.
void check_layouts(const char* name, TensorList params, std::initializer_list<TensorList> lists) {
  for (const TensorList& list : lists) {
    for (size_t i = 0; i < std::min(list.size(), params.size()); ++i) {
      const Tensor& tensor = list[i];
      TORCH_CHECK(!on_device(params[i]) || tensor.layout() != at::kStrided || tensor.sizes() != params[i].sizes() ||
                      laid_out_alike(tensor, params[i]),
                  name, ": gradients and state must lie as their parameters do, without gaps, but strides are ",
                  tensor.strides(), " at position ", i, " where those of the parameter are ", params[i].strides(),
                  "; call contiguous(), or leave out fused=True");
    }
  }
}

bool is_state(TensorList state, TensorList params) {
  return corresponds(state, params) && state[0].scalar_type() == params[0].scalar_type();
}

TensorList list_if(bool wanted, TensorList list) {
  return wanted ? list : TensorList();
}

void add_scalar(ListFrame& frame, const OptionalTensor& tensor) {
  if (given(tensor)) {
    frame.add(*tensor);
  } else {
    frame.add_absent();
  }
}

template <class Rate>
bool fused_sgd(TensorList params, TensorList grads, TensorList momentum_buffers, double weight_decay, double momentum,
               Rate given_lr, double dampening, bool nesterov, bool maximize, bool is_first_step,
               const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  check_layouts("_fused_sgd_", params, {params, grads, momentum_buffers});
  const LearningRate lr(given_lr);
  const bool moves = momentum != 0;
  if (!can_step(params, grads, lr, grad_scale, found_inf) || (moves && !is_state(momentum_buffers, params)) ||
      !are_independent({params, list_if(moves, momentum_buffers), list_if(given(grad_scale), grads)}, grads)) {
    return false;
  }
  const Launchable* kernel = sgd_kernel.on(params[0]);
  if (kernel == nullptr) return false;
  ListFrame frame;
  frame.add(params);
  if (moves) {
    frame.add(momentum_buffers);
  } else {
    frame.add_absent(params.size());
  }
  frame.add(grads);
  for (const OptionalTensor& scalar : {OptionalTensor(lr.on_device), grad_scale, found_inf}) add_scalar(frame, scalar);
  const std::array<mydev_attribute, 7> attributes = {float_attribute("lr", lr.value),
                                                     float_attribute("weight_decay", weight_decay),
                                                     float_attribute("momentum", momentum),
                                                     float_attribute("dampening", dampening),
                                                     bool_attribute("nesterov", nesterov),
                                                     bool_attribute("maximize", maximize),
                                                     bool_attribute("first_step", is_first_step)};
  frame.launch(*kernel, 3 * params.size(), attributes, params[0].device());
  return true;
}

// The steps as scalars of the device, one for each parameter; empty where they cannot be. Steps that torch.optim keeps
// on the CPU, as it does without capturable=True and fused=True, become one scalar for each value that they have.
std::vector<Tensor> device_steps(TensorList steps, TensorList params) {
  if (steps.size() != params.size()) return {};
  std::vector<Tensor> result;
  result.reserve(steps.size());
  std::unordered_map<float, Tensor> by_value;
  for (const Tensor& step : steps) {
    if (step.numel() != 1 || (step.scalar_type() != at::kFloat && step.scalar_type() != at::kDouble)) return {};
    if (on_device(step)) {
      if (step.device() != params[0].device() || step.scalar_type() != at::kFloat) return {};
      result.push_back(step);
    } else if (step.is_cpu()) {
      const float value = step.scalar_type() == at::kFloat ? *step.const_data_ptr<float>()
                                                           : static_cast<float>(*step.const_data_ptr<double>());
      Tensor& scalar = by_value[value];
      if (!scalar.defined()) scalar = at::full({}, value, params[0].options().dtype(at::kFloat));
      result.push_back(scalar);
    } else {
      return {};
    }
  }
  return result;
}

template <bool decoupled, class Rate>
bool fused_adam(TensorList params, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,
                TensorList max_exp_avg_sqs, TensorList given_steps, Rate given_lr, double beta1, double beta2,
                double weight_decay, double eps, bool amsgrad, bool maximize, const OptionalTensor& grad_scale,
                const OptionalTensor& found_inf) {
  check_layouts(decoupled ? "_fused_adamw_" : "_fused_adam_", params,
                {params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs});
  const LearningRate lr(given_lr);
  if (!can_step(params, grads, lr, grad_scale, found_inf) || !is_state(exp_avgs, params) ||
      !is_state(exp_avg_sqs, params) || (amsgrad && !is_state(max_exp_avg_sqs, params)) ||
      !are_independent(
          {params, exp_avgs, exp_avg_sqs, list_if(amsgrad, max_exp_avg_sqs), list_if(given(grad_scale), grads)},
          grads)) {
    return false;
  }
  const Launchable* kernel = adam_kernel.on(params[0]);
  if (kernel == nullptr) return false;
  const std::vector<Tensor> steps = device_steps(given_steps, params);
  if (steps.empty()) return false;
  ListFrame frame;
  frame.add(params);
  frame.add(exp_avgs);
  frame.add(exp_avg_sqs);
  if (amsgrad) {
    frame.add(max_exp_avg_sqs);
  } else {
    frame.add_absent(params.size());
  }
  frame.add(grads);
  for (const OptionalTensor& scalar : {OptionalTensor(lr.on_device), grad_scale, found_inf}) add_scalar(frame, scalar);
  frame.add(steps);
  const std::array<mydev_attribute, 7> attributes = {
      float_attribute("lr", lr.value),       float_attribute("beta1", beta1),
      float_attribute("beta2", beta2),       float_attribute("weight_decay", weight_decay),
      float_attribute("eps", eps),           bool_attribute("maximize", maximize),
      bool_attribute("decoupled", decoupled)};
  frame.launch(*kernel, 5 * params.size(), attributes, params[0].device());
  return true;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::_fused_sgd_, &fused_sgd<double>>(m);
  register_native<at::_ops::_fused_sgd__tensor_lr, &fused_sgd<const Tensor&>>(m);
  register_native<at::_ops::_fused_adam_, &fused_adam<false, double>>(m);
  register_native<at::_ops::_fused_adam__tensor_lr, &fused_adam<false, const Tensor&>>(m);
  register_native<at::_ops::_fused_adamw_, &fused_adam<true, double>>(m);
  register_native<at::_ops::_fused_adamw__tensor_lr, &fused_adam<true, const Tensor&>>(m);
}

}  // namespace

bool steps_in_one_launch(bool is_adam, int device) {
  return (is_adam ? adam_kernel : sgd_kernel).on(device) != nullptr;
}

}  // namespace mydev
