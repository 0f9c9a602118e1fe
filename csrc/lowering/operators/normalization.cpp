// Normalisation over a batch, and its gradient, by the kernels that torch's have.
#include <array>

#include "lowering/frame.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

// How kernels see the operand: what is before the feature's dimension, the feature, what is after it.
Sizes batch_feature_rest(const Operation& op) {
  const auto feature = static_cast<size_t>(op.integer("feature_index"));
  Sizes merged = {1, 1, 1};
  const Sizes& sizes = op.operand(0).type->dims;
  for (size_t d = 0; d < sizes.size(); ++d) merged[d < feature ? 0 : d == feature ? 1 : 2] *= sizes[d];
  return merged;
}

program::Operand merged(Frame& frame, const Operation& op, size_t operand) {
  return dense_reshaped(frame.emit.dense(frame.view(op.operand(operand))), batch_feature_rest(op));
}

// The operation's first result, and the same memory as kernels see it.
program::Operand first_result(Frame& frame, const Operation& op) {
  const program::Operand result = frame.result_of(op.result(0));
  frame.set(op.result(0), {result, std::nullopt});
  return dense_reshaped(result, batch_feature_rest(op));
}

program::Operand other_result(Frame& frame, const Operation& op, size_t number) {
  const program::Operand result = frame.result_of(op.result(number));
  frame.set(op.result(number), {result, std::nullopt});
  return result;
}

program::Operand vector(Frame& frame, const Operation& op, size_t operand) {
  return frame.emit.dense(frame.view(op.operand(operand)));
}

void lower_training(Frame& frame, const Operation& op, double epsilon) {
  Emitter& emit = frame.emit;
  const program::Operand x = merged(frame, op, 0);
  const program::Operand inverse = emit.temporary(x.dtype, op.result(1).type->dims);
  const std::array attributes = {float_attribute("momentum", 0), float_attribute("eps", epsilon)};
  const program::Operand none = program::ProgramBuilder::absent();
  emit.launch("mydev.batch_norm_training", {first_result(frame, op), other_result(frame, op, 1), inverse, none, none},
              {x, vector(frame, op, 1), vector(frame, op, 2)}, attributes);
  // Not of its inverse root, to which epsilon was added.
  program::Operand variance = other_result(frame, op, 2);
  variance.sizes = x.sizes;
  variance.strides = {0, 1, 0};
  const std::array of_variance = {float_attribute("correction", 0), bool_attribute("take_root", false)};
  emit.launch("mydev.variance", {variance, none}, {x}, of_variance);
}

void lower_inference(Frame& frame, const Operation& op, double epsilon) {
  const std::array attributes = {float_attribute("eps", epsilon)};
  const program::Operand x = merged(frame, op, 0);
  std::vector<program::Operand> operands = {x};
  for (size_t i = 1; i < op.operands.size(); ++i) operands.push_back(vector(frame, op, i));
  frame.emit.launch("mydev.batch_norm_inference", {first_result(frame, op)}, std::move(operands), attributes);
}

void lower_gradient(Frame& frame, const Operation& op, double epsilon) {
  Emitter& emit = frame.emit;
  const Tensor variance = frame[op.operand(3)];
  const mydev_dtype dtype = variance.view.dtype;
  const Tensor shifted = emit.pointwise("mydev.add", dtype, {variance, emit.splat(dtype, variance.sizes(), epsilon)});
  const Tensor inverse = emit.pointwise("mydev.rsqrt", dtype, {shifted});
  const program::Operand gradient = merged(frame, op, 4), x = merged(frame, op, 0);
  const std::array attributes = {bool_attribute("training", true), float_attribute("eps", epsilon)};
  emit.launch("mydev.batch_norm_backward",
              {first_result(frame, op), other_result(frame, op, 1), other_result(frame, op, 2)},
              {gradient, x, vector(frame, op, 1), vector(frame, op, 2), emit.dense(inverse.view)}, attributes);
}

}  // namespace

bool lower_normalization(Frame& frame, const Operation& op) {
  const bool is_one = op.op == Operator::kBatchNormTraining || op.op == Operator::kBatchNormInference ||
                      op.op == Operator::kBatchNormGrad;
  if (!is_one) return false;
  if (!has_float_kernels(op.operand(0).type->element) || op.operand(0).type->element_count() == 0) {
    op.fail(MYDEV_UNIMPLEMENTED, "is supported for elements of f16, bf16, f32 and f64, not for ",
            op.operand(0).type->text());
  }
  const double epsilon = op.floating("epsilon");
  if (op.op == Operator::kBatchNormTraining) {
    lower_training(frame, op, epsilon);
  } else if (op.op == Operator::kBatchNormInference) {
    lower_inference(frame, op, epsilon);
  } else {
    lower_gradient(frame, op, epsilon);
  }
  return true;
}

}  // namespace mydev::lowering
