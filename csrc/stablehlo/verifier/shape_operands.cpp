#include "stablehlo/verifier/shape_operands.h"

#include <initializer_list>
#include <vector>

namespace mydev::stablehlo {

namespace {

void require_numbers(const Operation& op, size_t i, const std::vector<int64_t>& sizes) {
  const Type& type = *op.operand(i).type;
  const bool is_list = type.is_tensor() && type.dims.size() == sizes.size() && is_integer(type.element);
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (is_list && (type.dims[d] == sizes[d] || type.dims[d] == kDynamic)) continue;
    op.fail(MYDEV_INVALID_ARGUMENT, "operand ", i, " is of the type ", type.text(), ", expected ", sizes.front(),
            sizes.size() == 2 ? " pairs of integers" : " integers, one for each dimension");
  }
  if (!is_list)
    op.fail(MYDEV_INVALID_ARGUMENT, "operand ", i, " is of the type ", type.text(), ", expected an integer");
}

// The result must have the operand's element type and, if `same_rank`, its rank.
void require_like_operand(const Operation& op, bool same_rank) {
  const Type &from = *op.operand(0).type, &to = *op.result().type;
  if (from.is_tensor() && to.is_tensor() && from.element == to.element && (!same_rank || from.rank() == to.rank()))
    return;
  op.fail(MYDEV_INVALID_ARGUMENT, "it makes a ", to.text(), " of a ", from.text());
}

}  // namespace

void verify_shape_operands(const Operation& op) {
  switch (op.op) {
    case Operator::kDynamicReshape:
    case Operator::kDynamicBroadcastInDim:
      require_like_operand(op, false);
      return require_numbers(op, 1, {op.result().type->rank()});
    case Operator::kDynamicIota:
      return require_numbers(op, 0, {op.result().type->rank()});
    case Operator::kRng:
      return require_numbers(op, 2, {op.result().type->rank()});
    case Operator::kDynamicGather:
      require_like_operand(op, false);
      return require_numbers(op, 2, {op.operand(0).type->rank()});
    case Operator::kDynamicConv:
      return require_numbers(op, 2, {op.operand(0).type->rank() - 2, 2});
    case Operator::kDynamicPad:
      require_like_operand(op, true);
      if (op.operand(1).type->element != op.operand(0).type->element || op.operand(1).type->rank() != 0) {
        op.fail(MYDEV_INVALID_ARGUMENT, "it pads a ", op.operand(0).type->text(), " with a ",
                op.operand(1).type->text());
      }
      for (const size_t i : {2, 3, 4}) require_numbers(op, i, {op.operand(0).type->rank()});
      return;
    case Operator::kRealDynamicSlice:
      require_like_operand(op, true);
      for (const size_t i : {1, 2, 3}) require_numbers(op, i, {op.operand(0).type->rank()});
      return;
    case Operator::kSetDimensionSize:
      require_like_operand(op, true);
      return require_numbers(op, 1, {});
    default:
      return;
  }
}

}  // namespace mydev::stablehlo
