// Operators that take sizes as operands, with results whose sizes are known: constant sizes are checked when the
// program is compiled, others when it runs. The operators are then the same as those without such operands.
#include <algorithm>

#include "lowering/frame.h"
#include "stablehlo/evaluator/shapes.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

void check_sizes(Frame& frame, const Operation& op, size_t operand, Sizes expected) {
  const Value& sizes = op.operand(operand);
  if (sizes.definition != nullptr && sizes.definition->op == Operator::kConstant) {
    return require_sizes(op, operand, expected, integers_of(sizes.definition->literal("value")));
  }
  Evaluation check = [&op, operand, expected = std::move(expected)](auto operands, auto) {
    require_sizes(op, operand, expected, numbers_of(*op.operand(operand).type, operands[0]));
  };
  frame.host_call("check of sizes", std::move(check), {}, {frame.view(sizes)});
}

// The sizes of the slices that the result is made of.
Sizes slice_sizes(const Operation& op) {
  const Sizes offsets = op.integers("offset_dims"), collapsed = op.integers("collapsed_slice_dims"),
              batching = op.integers_or_none("operand_batching_dims");
  Sizes sizes;
  size_t next = 0;
  for (int64_t d = 0; d < op.operand(0).type->rank(); ++d) {
    const bool is_one = std::ranges::count(collapsed, d) != 0 || std::ranges::count(batching, d) != 0;
    sizes.push_back(is_one ? 1 : op.result().type->dims.at(static_cast<size_t>(offsets[next++])));
  }
  return sizes;
}

}  // namespace

void check_shape_operands(Frame& frame, const Operation& op) {
  switch (op.op) {
    case Operator::kDynamicReshape:
    case Operator::kDynamicBroadcastInDim:
      return check_sizes(frame, op, 1, op.result().type->dims);
    case Operator::kDynamicIota:
      return check_sizes(frame, op, 0, op.result().type->dims);
    case Operator::kRng:
      return check_sizes(frame, op, 2, op.result().type->dims);
    case Operator::kDynamicGather:
      return check_sizes(frame, op, 2, slice_sizes(op));
    case Operator::kSetDimensionSize:
      return check_sizes(frame, op, 1, {op.result().type->dims.at(static_cast<size_t>(op.integer("dimension")))});
    default:
      return;  // dynamic_pad, real_dynamic_slice and dynamic_conv check themselves: see their evaluations
  }
}

}  // namespace mydev::lowering
