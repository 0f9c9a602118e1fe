// Activations and their backwards: one row each, and the ops that are its forms. Tensor arguments are the kernel's
// inputs, the other arguments its attributes, both in the op's order.
#include <ATen/Operators.h>

#include <cmath>

#include "aten/core/number.h"
#include "aten/ops/pointwise/pointwise.h"

namespace mydev {
namespace {

namespace ops = at::_ops;

// Operands of different dtypes are rare here, and some ops refuse them: left to the CPU.
#define MYDEV_ROW(op, ...)  \
  PointwiseRow op##_row = { \
      .kernel = KernelRef("mydev." #op), .attributes = {__VA_ARGS__}, .promotes = false, .casts_out = false};
MYDEV_ROW(relu)
MYDEV_ROW(gelu, "tanh")
MYDEV_ROW(gelu_backward, "tanh")
MYDEV_ROW(silu)
MYDEV_ROW(silu_backward)
MYDEV_ROW(mish)
MYDEV_ROW(mish_backward)
MYDEV_ROW(elu, "alpha", "scale", "input_scale")
MYDEV_ROW(softplus, "beta", "threshold")
MYDEV_ROW(softplus_backward, "beta", "threshold")
MYDEV_ROW(log_sigmoid)
MYDEV_ROW(log_sigmoid_backward)
MYDEV_ROW(sigmoid_backward)
MYDEV_ROW(tanh_backward)
MYDEV_ROW(leaky_relu, "negative_slope")
MYDEV_ROW(clamp, "min", "max")
MYDEV_ROW(hardtanh_backward, "min_val", "max_val")
MYDEV_ROW(hardsigmoid)
MYDEV_ROW(hardsigmoid_backward)
MYDEV_ROW(hardswish)
MYDEV_ROW(hardswish_backward)
PointwiseRow threshold_backward_row = {.kernel = KernelRef("mydev.threshold_backward"),
                                       .attributes = {"threshold"},
                                       .promotes = false,
                                       .casts_out = false,
                                       .second_input_first = true};

// The result of a falling branch does not tell its input: the CPU refuses the gradient of such an in-place op.
template <int slope, int is_result>
bool gradient_is_defined(c10::ScalarType, DtypeSet, const mydev_attribute* arguments) {
  return arguments[is_result].value.i == 0 || to_scalar(arguments[slope]).toDouble() >= 0;
}
PointwiseRow elu_backward_row = {.kernel = KernelRef("mydev.elu_backward"),
                                 .attributes = {"alpha", "scale", "input_scale", "is_result"},
                                 .promotes = false,
                                 .casts_out = false,
                                 .check = gradient_is_defined<0, 3>};
PointwiseRow leaky_relu_backward_row = {.kernel = KernelRef("mydev.leaky_relu_backward"),
                                        .attributes = {"negative_slope", "self_is_result"},
                                        .promotes = false,
                                        .casts_out = false,
                                        .second_input_first = true,
                                        .check = gradient_is_defined<0, 1>};
// The CPU clamps no bools.
PointwiseRow lower_bound_row = {.kernel = KernelRef("mydev.maximum"), .dtypes = kNumbers, .number_is_operand = true};
PointwiseRow upper_bound_row = {.kernel = KernelRef("mydev.minimum"), .dtypes = kNumbers, .number_is_operand = true};

// A bound that leaves self's dtype as it is, and is a number.
bool bound_keeps_dtype(const at::Tensor& self, const std::optional<c10::Scalar>& bound) {
  if (!bound.has_value()) return true;
  if (bound->isFloatingPoint()) return self.is_floating_point() && !std::isnan(bound->toDouble());
  return bound->isIntegral(/*includeBool=*/false);
}

// clamp and hardtanh: one or both bounds. hardtanh's result is laid out as its operand.
template <class Op, class Schema = typename Op::schema>
struct ClampForm;
template <class Op, class Result, class Self, class Bound, class... Out>
struct ClampForm<Op, Result(Self, Bound, Bound, Out...)> {
  static Result call(Self self, Bound min, Bound max, Out... out) {
    const std::optional<c10::Scalar> low(min), high(max);
    if (!(low.has_value() || high.has_value()) || !bound_keeps_dtype(self, low) || !bound_keeps_dtype(self, high)) {
      return BoxedFallback<Op>::call(self, min, max, out...);
    }
    PointwiseCall call(!low.has_value() ? upper_bound_row : !high.has_value() ? lower_bound_row : clamp_row);
    call.take(self);
    if (low.has_value()) call.take(*low);
    if (high.has_value()) call.take(*high);
    (call.take(out), ...);
    if constexpr (std::is_same_v<Op, ops::hardtanh>) {
      at::Tensor result = empty_laid_out_as(self, self.scalar_type());
      call.take(result);
      return call.run() ? result : BoxedFallback<Op>::call(self, min, max);
    } else {
      return finish<Op>(call, self, min, max, out...);
    }
  }
};

// The forward's buffer serves the CPU's backward; ours computes from the input. So a kernel of the forward leaves it
// empty, and where the CPU computes the backward of such a forward, exp(-abs(self)) is computed for it.
std::tuple<at::Tensor, at::Tensor> log_sigmoid_forward(const at::Tensor& self) {
  at::Tensor result = empty_dense(self.sizes(), self);  // contiguous, whatever the input is
  PointwiseCall call(log_sigmoid_row);
  call.take(self);
  call.take(result);
  if (!call.run()) return BoxedFallback<ops::log_sigmoid_forward>::call(self);
  // Without elements, but with the operand's dimensions, by which vmap tells its batches.
  at::DimVector none(self.sizes().begin(), self.sizes().end());
  none.push_back(0);
  return {std::move(result), empty_dense(none, self)};
}
at::Tensor log_sigmoid_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& buffer) {
  PointwiseCall call(log_sigmoid_backward_row);
  call.take(grad);
  call.take(self);
  if (grad.sizes() != self.sizes()) return finish<ops::log_sigmoid_backward>(call, grad, self, buffer);
  at::Tensor result = empty_laid_out_as(grad, grad.scalar_type());
  call.take(result);
  if (call.run()) return result;
  const bool left_empty = buffer.sizes() != self.sizes();
  return BoxedFallback<ops::log_sigmoid_backward>::call(grad, self, left_empty ? self.abs().neg().exp() : buffer);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#define MYDEV_REGISTER_FORWARD(op) register_forms<op##_row, ops::op, ops::op##_, ops::op##_out>(m);
#define MYDEV_REGISTER_BACKWARD(op) register_forms<op##_row, ops::op, ops::op##_grad_input>(m);
  register_forms<relu_row, ops::relu, ops::relu_>(m);
  MYDEV_REGISTER_FORWARD(gelu)
  MYDEV_REGISTER_FORWARD(silu)
  MYDEV_REGISTER_FORWARD(mish)
  MYDEV_REGISTER_FORWARD(elu)
  MYDEV_REGISTER_FORWARD(leaky_relu)
  MYDEV_REGISTER_FORWARD(hardsigmoid)
  MYDEV_REGISTER_FORWARD(hardswish)
  register_forms<softplus_row, ops::softplus, ops::softplus_out>(m);
  MYDEV_REGISTER_BACKWARD(threshold_backward)
  MYDEV_REGISTER_BACKWARD(gelu_backward)
  MYDEV_REGISTER_BACKWARD(silu_backward)
  MYDEV_REGISTER_BACKWARD(elu_backward)
  MYDEV_REGISTER_BACKWARD(softplus_backward)
  MYDEV_REGISTER_BACKWARD(sigmoid_backward)
  MYDEV_REGISTER_BACKWARD(tanh_backward)
  MYDEV_REGISTER_BACKWARD(leaky_relu_backward)
  MYDEV_REGISTER_BACKWARD(hardtanh_backward)
  MYDEV_REGISTER_BACKWARD(hardsigmoid_backward)
  register_forms<mish_backward_row, ops::mish_backward>(m);
  register_forms<hardswish_backward_row, ops::hardswish_backward>(m);
  register_op<ops::log_sigmoid_forward>(m, &log_sigmoid_forward);
  register_op<ops::log_sigmoid_backward>(m, &log_sigmoid_backward);
  register_op<ops::clamp>(m, &ClampForm<ops::clamp>::call);
  register_op<ops::clamp_>(m, &ClampForm<ops::clamp_>::call);
  register_op<ops::clamp_out>(m, &ClampForm<ops::clamp_out>::call);
  register_op<ops::hardtanh>(m, &ClampForm<ops::hardtanh>::call);
  register_op<ops::hardtanh_>(m, &ClampForm<ops::hardtanh_>::call);
  register_op<ops::hardtanh_out>(m, &ClampForm<ops::hardtanh_out>::call);
}

}  // namespace
}  // namespace mydev
