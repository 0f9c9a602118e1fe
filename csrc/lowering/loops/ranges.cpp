// Integers whose range is known, such as the counters of loops. The outcome of comparing them may then be known, and
// with it the operand that a selection takes. JAX tests of each index whether it is negative.
#include <algorithm>

#include "lowering/frame.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

bool has_integer_kernels(ElementType type) noexcept {
  return has_kernels(type) && is_integer(type) && element_row(type).bits >= 8;
}

std::optional<Range> range_of(const Tensor& tensor) {
  return tensor.splat ? Range{tensor.splat->i, tensor.splat->i} : tensor.range;
}

std::optional<Range> sum(const Range& a, const Range& b) {
  Range sum{};
  const bool overflows = __builtin_add_overflow(a.least, b.least, &sum.least) ||
                         __builtin_add_overflow(a.greatest, b.greatest, &sum.greatest);
  return overflows ? std::nullopt : std::optional(sum);
}

std::optional<Range> difference(const Range& a, const Range& b) {
  Range difference{};
  const bool overflows = __builtin_sub_overflow(a.least, b.greatest, &difference.least) ||
                         __builtin_sub_overflow(a.greatest, b.least, &difference.greatest);
  return overflows ? std::nullopt : std::optional(difference);
}

// Whether a < b for all, or for none.
std::optional<bool> is_less(const Range& a, const Range& b) {
  if (a.greatest < b.least) return true;
  if (a.least >= b.greatest) return false;
  return std::nullopt;
}

std::optional<bool> outcome(ComparisonDirection direction, const Range& a, const Range& b) {
  const auto inverted = [](std::optional<bool> known) { return known ? std::optional(!*known) : known; };
  switch (direction) {
    case ComparisonDirection::kLt:
      return is_less(a, b);
    case ComparisonDirection::kGe:
      return inverted(is_less(a, b));
    case ComparisonDirection::kGt:
      return is_less(b, a);
    case ComparisonDirection::kLe:
      return inverted(is_less(b, a));
    default:
      return std::nullopt;
  }
}

bool lower_compare(Frame& frame, const Operation& op) {
  const std::optional<Range> a = range_of(frame[op.operand(0)]), b = range_of(frame[op.operand(1)]);
  if (!a || !b || element_row(op.operand(0).type->element).kind != ElementKind::kSigned) return false;
  const std::optional<bool> known = outcome(op.get<ComparisonDirection>("comparison_direction"), *a, *b);
  if (known) frame.set(op.result(), frame.emit.splat(MYDEV_PRED, op.result().type->dims, *known ? 1 : 0));
  return known.has_value();
}

bool lower_select(Frame& frame, const Operation& op) {
  const std::optional<mydev_scalar>& condition = frame[op.operand(0)].splat;
  if (condition) frame.set(op.result(), frame[op.operand(condition->i != 0 ? 1 : 2)]);
  return condition.has_value();
}

// The kernel computes it; the range is for those who use it.
bool lower_sum(Frame& frame, const Operation& op) {
  const std::optional<Range> a = range_of(frame[op.operand(0)]), b = range_of(frame[op.operand(1)]);
  const ElementType type = op.result().type->element;
  if (!a || !b || element_row(type).kind != ElementKind::kSigned || !lower_pointwise(frame, op)) return false;
  const std::optional<Range> range = op.op == Operator::kAdd ? sum(*a, *b) : difference(*a, *b);
  if (range && is_of_type(*range, type)) {
    Tensor tensor = frame[op.result()];
    tensor.range = range;
    frame.set(op.result(), std::move(tensor));
  }
  return true;
}

// A product with 1 is the other factor.
bool lower_product_with_one(Frame& frame, const Operation& op) {
  if (!has_integer_kernels(op.result().type->element)) return false;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const std::optional<mydev_scalar>& factor = frame[op.operand(i)].splat;
    if (!factor || factor->i != 1) continue;
    frame.set(op.result(), frame[op.operand(1 - i)]);
    return true;
  }
  return false;
}

// A shift that moves all bits out of small numbers.
bool lower_shift(Frame& frame, const Operation& op) {
  const std::optional<Range> a = range_of(frame[op.operand(0)]), count = range_of(frame[op.operand(1)]);
  if (!a || !count || a->least < 0 || count->least < 0) return false;
  if (count->least < 63 && a->greatest >> count->least != 0) return false;
  frame.set(op.result(), frame.emit.integer_splat(frame.view(op.operand(0)).dtype, op.result().type->dims, 0));
  return true;
}

// A conversion of one number, or of numbers that both types have.
bool lower_convert(Frame& frame, const Operation& op) {
  const ElementType from = op.operand(0).type->element, to = op.result().type->element;
  const Tensor& x = frame[op.operand(0)];
  if (from == to || !has_integer_kernels(from) || !has_integer_kernels(to)) return false;
  if (x.splat) {
    frame.set(op.result(), frame.emit.integer_splat(dtype_of(to), x.sizes(), x.splat->i));
    return true;
  }
  const std::optional<Range> range = x.range;
  if (!range || range->least < 0 || range->greatest > INT64_MAX >> (64 - element_row(to).bits)) return false;
  if (!lower_conversion(frame, op)) return false;
  Tensor tensor = frame[op.result()];
  tensor.range = range;
  frame.set(op.result(), std::move(tensor));
  return true;
}

}  // namespace

bool is_of_type(const Range& range, ElementType type) noexcept {
  const ElementRow& row = element_row(type);
  if (row.kind != ElementKind::kSigned) return false;
  const int64_t greatest = INT64_MAX >> (64 - row.bits);
  return range.least >= -greatest - 1 && range.greatest <= greatest;
}

bool lower_by_range(Frame& frame, const Operation& op) {
  switch (op.op) {
    case Operator::kCompare:
      return lower_compare(frame, op);
    case Operator::kSelect:
      return lower_select(frame, op);
    case Operator::kAdd:
    case Operator::kSubtract:
      return lower_sum(frame, op);
    case Operator::kMultiply:
      return lower_product_with_one(frame, op);
    case Operator::kShiftRightLogical:
    case Operator::kShiftRightArithmetic:
      return lower_shift(frame, op);
    case Operator::kConvert:
      return lower_convert(frame, op);
    default:
      return false;
  }
}

}  // namespace mydev::lowering
