// Reductions, windows over tensors, and sorting.
#include <string>

#include "stablehlo/verifier/checks.h"
#include "stablehlo/verifier/rules.h"

namespace mydev::stablehlo::verifier {

namespace {

// Requires inputs of one shape with an initial value for each; returns the sizes.
const Numbers& inputs_of_one_shape(const Operation& op) {
  const std::span<const Value* const> inputs = op.operand_group("inputs"), initial = op.operand_group("init_values");
  require(op, !inputs.empty(), "it has no operands");
  require(op, op.results.size() == inputs.size(), "it has ", inputs.size(), " inputs and ", op.results.size(),
          " results");
  const Numbers& sizes = tensor(op, *inputs[0]).dims;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Type& input = tensor(op, *inputs[i]);
    require_type(op, input, input.element, sizes, "input " + std::to_string(i));
    require_type(op, tensor(op, *initial[i]), input.element, {}, "initial value " + std::to_string(i));
  }
  return sizes;
}

// Results have any element type here: the verification of the body checks it.
void require_reduced(const Operation& op, const Numbers& sizes) {
  for (size_t i = 0; i < op.results.size(); ++i) require_result(op, result(op, i).element, sizes, i);
}

void reduce(const Operation& op) {
  const Numbers& from = inputs_of_one_shape(op);
  const Numbers reduced = dimensions(op, "dimensions", std::ssize(from));
  Numbers sizes;
  for (int64_t d = 0; d < std::ssize(from); ++d) {
    if (std::ranges::find(reduced, d) == reduced.end()) sizes.push_back(from[static_cast<size_t>(d)]);
  }
  require_reduced(op, sizes);
}

}  // namespace

int64_t windows_along(const Operation& op, size_t dimension, const WindowsAlong& along) {
  if (along.size == kDynamic || along.window == kDynamic) return kDynamic;
  int64_t spread = 0, reach = 0;
  const bool are_bounded = is_bounded(along.low) && is_bounded(along.high) && is_bounded(along.base_dilation) &&
                           is_bounded(along.dilation) && is_bounded(along.stride);
  const auto dilated = [&](int64_t size, int64_t dilation, int64_t& to) {
    if (size == 0) return true;
    if (__builtin_mul_overflow(size - 1, dilation, &to)) return false;
    to += 1;
    return to <= kMostTensorBytes;
  };
  require(
      op,
      are_bounded && dilated(along.size, along.base_dilation, spread) && dilated(along.window, along.dilation, reach),
      "the windows along dimension ", dimension, " reach further than any tensor");
  const int64_t whole = spread + along.low + along.high;
  return whole <= 0 || whole < reach ? 0 : (whole - reach) / along.stride + 1;
}

namespace {

void reduce_window(const Operation& op) {
  const Numbers& from = inputs_of_one_shape(op);
  const auto rank = std::ssize(from);
  const Numbers windows = positive_numbers(op, "window_dimensions", rank),
                strides = positive_numbers(op, "window_strides", rank),
                base_dilations = positive_numbers(op, "base_dilations", rank),
                dilations = positive_numbers(op, "window_dilations", rank), padding = pairs(op, "padding", rank);
  Numbers sizes;
  for (size_t d = 0; d < from.size(); ++d) {
    sizes.push_back(windows_along(op, d,
                                  {.size = from[d],
                                   .base_dilation = base_dilations[d],
                                   .low = padding[2 * d],
                                   .high = padding[2 * d + 1],
                                   .window = windows[d],
                                   .dilation = dilations[d],
                                   .stride = strides[d]}));
  }
  require_reduced(op, sizes);
}

// A source element for each window.
void select_and_scatter(const Operation& op) {
  const Type& from = operand(op);
  const Numbers windows = positive_numbers(op, "window_dimensions", from.rank()),
                strides = positive_numbers(op, "window_strides", from.rank()),
                padding = pairs(op, "padding", from.rank());
  Numbers sizes;
  for (size_t d = 0; d < windows.size(); ++d) {
    sizes.push_back(windows_along(op, d,
                                  {.size = from.dims[d],
                                   .low = padding[2 * d],
                                   .high = padding[2 * d + 1],
                                   .window = windows[d],
                                   .stride = strides[d]}));
  }
  require_type(op, operand(op, 1), from.element, sizes, "'source'");
  require_type(op, operand(op, 2), from.element, {}, "the initial value");
  require_result(op, from.element, from.dims);
}

void sort(const Operation& op) {
  require(op, !op.operands.empty(), "it has no operands");
  const Type& first = operand(op);
  require_dimension(op, "dimension", op.integer("dimension"), first.rank());
  for (size_t i = 1; i < op.operands.size(); ++i) {
    require_type(op, operand(op, i), operand(op, i).element, first.dims, "operand " + std::to_string(i));
  }
}

void map(const Operation& op) {
  require(op, !op.operands.empty(), "it has no operands");
  const Type& first = operand(op);
  const Numbers mapped = dimensions(op, "dimensions", first.rank());
  require(op, static_cast<int64_t>(mapped.size()) == first.rank() && std::ranges::is_sorted(mapped),
          "'dimensions' are not all of its operands', in their order");
  require_result(op, result(op).element, first.dims);
}

constexpr RuleRow kReductionRules[] = {
    {Operator::kReduce, reduce},
    {Operator::kReduceWindow, reduce_window},
    {Operator::kSelectAndScatter, select_and_scatter},
    {Operator::kSort, sort},
    {Operator::kMap, map},
};

}  // namespace

std::span<const RuleRow> reduction_rules() noexcept {
  return kReductionRules;
}

}  // namespace mydev::stablehlo::verifier
