// Operators that take sizes as operands, with results whose sizes are known: the sizes are checked, when the program is
// compiled where they are constants, else when it runs, and the operators are as those without.
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
  frame.context.host.launch(frame.emit, "check of sizes", std::move(check), {}, {frame.view(sizes)});
}

// The sizes of the slices that the result is made of.
Sizes slice_sizes(const Operation& op) {
  const Sizes &operand = op.operand(0).type->dims, &result = op.result().type->dims;
  const Sizes offsets = op.integers("offset_dims"), collapsed = op.integers("collapsed_slice_dims"),
              batching = op.integers_or_none("operand_batching_dims");
  if (offsets.size() + collapsed.size() + batching.size() != operand.size()) {
    op.fail(MYDEV_INVALID_ARGUMENT, "'offset_dims', 'collapsed_slice_dims' and 'operand_batching_dims' are ",
            offsets.size() + collapsed.size() + batching.size(), " dimensions of an operand of rank ", operand.size());
  }
  Sizes sizes(operand.size(), 1);
  size_t next = 0;
  for (size_t d = 0; d < operand.size(); ++d) {
    const auto dimension = static_cast<int64_t>(d);
    if (std::ranges::count(collapsed, dimension) != 0 || std::ranges::count(batching, dimension) != 0) continue;
    sizes[d] = result.at(static_cast<size_t>(offsets[next++]));
    if (sizes[d] > operand[d]) {
      op.fail(MYDEV_INVALID_ARGUMENT, "a slice of size ", sizes[d], " of dimension ", d, ", which has ", operand[d]);
    }
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
    case Operator::kDynamicGather:
      return check_sizes(frame, op, 2, slice_sizes(op));
    case Operator::kSetDimensionSize:
      return check_sizes(frame, op, 1, {op.result().type->dims.at(static_cast<size_t>(op.integer("dimension")))});
    default:
      return;  // dynamic_pad, real_dynamic_slice and dynamic_conv check themselves: see their evaluations
  }
}

}  // namespace mydev::lowering
