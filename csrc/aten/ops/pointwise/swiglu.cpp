// torch.ops.mydev.swiglu: silu(gate) * up, the gated unit of transformer feed-forward layers, which PyTorch has only as
// two ops with two intermediate results. A custom operator, complete: schema, kernels for the device, a composite for
// every other device, a Meta kernel (shapes for torch.compile), and gradients of first and higher order.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "aten/launch/native_launch.h"
#include "aten/ops/transformed_tensor.h"

namespace mydev {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void check_swiglu_operands(const Tensor& gate, const Tensor& up) {
  TORCH_CHECK_VALUE(gate.sizes() == up.sizes(), "mydev::swiglu: gate and up must have one shape, got ", gate.sizes(),
                    " and ", up.sizes());
  TORCH_CHECK_TYPE(gate.scalar_type() == up.scalar_type(), "mydev::swiglu: gate and up must have one dtype, got ",
                   gate.scalar_type(), " and ", up.scalar_type());
  TORCH_CHECK_TYPE(gate.is_floating_point(), "mydev::swiglu: expected a floating dtype, got ", gate.scalar_type());
}

Tensor composite(const Tensor& gate, const Tensor& up) {
  check_swiglu_operands(gate, up);
  return at::silu(gate) * up;
}

// Differentiable.
std::tuple<Tensor, Tensor> composite_backward(const Tensor& grad, const Tensor& gate, const Tensor& up) {
  const Tensor s = gate.sigmoid();
  return {grad * up * s * (1 + gate * (1 - s)), grad * gate * s};
}

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  static KernelRef kernel("mydev.swiglu");
  check_swiglu_operands(gate, up);
  check_same_device("mydev::swiglu", {gate, up});
  const Launchable* record = kernel.for_operand(gate);
  if (record == nullptr) return composite(gate, up);
  const Tensor g = gate.contiguous(), u = up.contiguous();
  Tensor out = empty_dense(g.sizes(), g);
  try {
    OpFrame<3>().add(out).add(g).add(u).launch(*record, 1);
    return out;
  } catch (const KernelDeclined&) {
    return composite(gate, up);
  }
}

std::tuple<Tensor, Tensor> swiglu_backward(const Tensor& grad, const Tensor& gate, const Tensor& up) {
  static KernelRef kernel("mydev.swiglu_backward");
  const Launchable* record = kernel.for_operand(gate);
  if (record == nullptr) return composite_backward(grad, gate, up);
  const Tensor d = grad.contiguous(), g = gate.contiguous(), u = up.contiguous();
  Tensor grad_gate = empty_dense(g.sizes(), g), grad_up = empty_dense(g.sizes(), g);
  try {
    OpFrame<5>().add(grad_gate).add(grad_up).add(d).add(g).add(u).launch(*record, 2);
    return {std::move(grad_gate), std::move(grad_up)};
  } catch (const KernelDeclined&) {
    return composite_backward(grad, gate, up);
  }
}

Tensor swiglu_meta(const Tensor& gate, const Tensor& up) {
  check_swiglu_operands(gate, up);
  return at::empty_symint(gate.sym_sizes(), gate.options());
}

std::tuple<Tensor, Tensor> swiglu_backward_meta(const Tensor& /*grad*/, const Tensor& gate, const Tensor& /*up*/) {
  return {at::empty_symint(gate.sym_sizes(), gate.options()), at::empty_symint(gate.sym_sizes(), gate.options())};
}

Tensor call_swiglu(const Tensor& gate, const Tensor& up) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("mydev::swiglu", "").typed<Tensor(const Tensor&, const Tensor&)>();
  return op.call(gate, up);
}

std::tuple<Tensor, Tensor> call_swiglu_backward(const Tensor& grad, const Tensor& gate, const Tensor& up) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("mydev::swiglu_backward", "")
                             .typed<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&)>();
  return op.call(grad, gate, up);
}

class Swiglu : public torch::autograd::Function<Swiglu> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& gate, const Tensor& up) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    context->save_for_backward({gate, up});
    return call_swiglu(gate, up);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    if (!grads[0].defined()) return {Tensor(), Tensor()};
    // A graph of the gradient is being built: use what autograd can look into.
    auto [grad_gate, grad_up] = at::GradMode::is_enabled() ? composite_backward(grads[0], saved[0], saved[1])
                                                           : call_swiglu_backward(grads[0], saved[0], saved[1]);
    return {std::move(grad_gate), std::move(grad_up)};
  }
};

// The function above is for reverse mode alone; transformations see what the operator is made of.
Tensor swiglu_autograd(const Tensor& gate, const Tensor& up) {
  const auto needs_composite = [](const Tensor& tensor) { return is_transformed(tensor) || has_tangent(tensor); };
  if (needs_composite(gate) || needs_composite(up)) return composite(gate, up);
  return Swiglu::apply(gate, up);
}

TORCH_LIBRARY(mydev, m) {
  m.def("swiglu(Tensor gate, Tensor up) -> Tensor");
  m.def("swiglu_backward(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(mydev, CompositeImplicitAutograd, m) {
  m.impl("swiglu", TORCH_FN(composite));
  m.impl("swiglu_backward", TORCH_FN(composite_backward));
}
TORCH_LIBRARY_IMPL(mydev, PrivateUse1, m) {
  m.impl("swiglu", TORCH_FN(swiglu));
  m.impl("swiglu_backward", TORCH_FN(swiglu_backward));
}
TORCH_LIBRARY_IMPL(mydev, AutogradPrivateUse1, m) {
  m.impl("swiglu", TORCH_FN(swiglu_autograd));
}
TORCH_LIBRARY_IMPL(mydev, FuncTorchBatchedDecomposition, m) {
  m.impl("swiglu", TORCH_FN(composite));
  m.impl("swiglu_backward", TORCH_FN(composite_backward));
}
TORCH_LIBRARY_IMPL(mydev, Meta, m) {
  m.impl("swiglu", TORCH_FN(swiglu_meta));
  m.impl("swiglu_backward", TORCH_FN(swiglu_backward_meta));
}

}  // namespace
}  // namespace mydev
