#include "lowering/loops/counted_loop.h"

#include <algorithm>

#include "lowering/loops/body.h"
#include "runtime/base/status.h"
#include "stablehlo/evaluator/number.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

bool is_signed(const Type& type) noexcept {
  return type.is_tensor() && element_row(type.element).kind == ElementKind::kSigned;
}

namespace {

// The integer that a value of a region of the loop is, if that is known.
std::optional<int64_t> integer_of(const Frame& frame, const Loop& loop, const Value& value) {
  if (value.type->rank() != 0 || !is_signed(*value.type)) return std::nullopt;
  if (value.definition != nullptr && value.definition->op == Operator::kConstant) {
    return load(value.type->element, value.definition->literal("value").bytes.data()).integer;
  }
  if (value.block->region->function != loop.op.function) return std::nullopt;  // what a function that is called takes
  const Value* outer = &value;
  if (value.definition == nullptr && value.block->region->owner == &loop.op) {
    if (loop.changes(value.index)) return std::nullopt;
    outer = &loop.op.operand(value.index);
  } else if (value.block->region->owner == &loop.op) {
    return std::nullopt;  // computed in the loop
  }
  const Tensor& tensor = frame[*outer];
  return tensor.splat ? std::optional(tensor.splat->i) : std::nullopt;
}

// By how much a value of the state grows in each iteration, if that is known: i + step, in the body or in what it
// calls.
std::optional<int64_t> growth_of(const Frame& frame, const Loop& loop, size_t place) {
  const Value* next = loop.body.results()[place];
  const Operation* call = nullptr;
  if (next->definition != nullptr && next->definition->op == Operator::kCall) {
    call = next->definition;
    next = frame.context.module.callee(*call).body->results()[next->index];
  }
  const Operation* add = next->definition;
  if (add == nullptr || add->op != Operator::kAdd) return std::nullopt;
  const Block* body = &loop.body.body();
  if ((call != nullptr ? call : add)->block != body) return std::nullopt;
  const auto is_state = [&](const Value& value) {
    const bool is_argument = value.definition == nullptr && value.block == add->block;
    const Value* outer = is_argument && call != nullptr ? &call->operand(value.index) : &value;
    return is_argument && outer == loop.body.arguments()[place];
  };
  if (is_state(add->operand(0))) return integer_of(frame, loop, add->operand(1));
  return is_state(add->operand(1)) ? integer_of(frame, loop, add->operand(0)) : std::nullopt;
}

}  // namespace

Loop::Loop(const Operation& op) : op(op), condition(op.region(0)), body(op.region(1)) {
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (!is_token(op.operand(i)) && body.results()[i] != body.arguments()[i]) changing.push_back(i);
  }
}

bool Loop::changes(size_t place) const {
  return std::ranges::binary_search(changing, place);
}

std::optional<uint64_t> trip_count_of(const Frame& frame, const Loop& loop) {
  const Operation* test = loop.condition.results()[0]->definition;
  if (test == nullptr || test->op != Operator::kCompare || test->block != &loop.condition.body() ||
      test->get<ComparisonDirection>("comparison_direction") != ComparisonDirection::kLt) {
    return std::nullopt;
  }
  const Value& value = test->operand(0);
  if (value.definition != nullptr || value.block != &loop.condition.body()) return std::nullopt;
  const std::optional<int64_t> limit = integer_of(frame, loop, test->operand(1));
  const std::optional<Counter> counter = counter_at(frame, loop, value.index);
  if (!limit || !counter || counter->step <= 0) return std::nullopt;
  int64_t distance = 0, last = 0;
  if (__builtin_sub_overflow(*limit, counter->start, &distance) ||
      __builtin_add_overflow(*limit, counter->step, &last)) {
    return std::nullopt;
  }
  const auto iterations = static_cast<uint64_t>(distance <= 0 ? 0 : (distance - 1) / counter->step + 1);
  const std::optional<int64_t> end = counter->in_iteration(iterations);
  if (!end || !is_of_type({*end, *end}, value.type->element)) return std::nullopt;  // it wraps, and goes on
  return iterations;
}

std::optional<int64_t> Counter::in_iteration(uint64_t iteration) const noexcept {
  int64_t moved = 0, value = 0;
  if (__builtin_mul_overflow(step, iteration, &moved) || __builtin_add_overflow(start, moved, &value))
    return std::nullopt;
  return value;
}

int64_t Counter::known_in_iteration(uint64_t iteration) const {
  const std::optional<int64_t> value = in_iteration(iteration);
  MYDEV_ASSERT(value.has_value());
  return *value;
}

std::optional<Counter> counter_at(const Frame& frame, const Loop& loop, size_t place) {
  const Value& initial = loop.op.operand(place);
  if (!is_signed(*initial.type) || initial.type->rank() != 0) return std::nullopt;
  const std::optional<mydev_scalar>& start = frame[initial].splat;
  const std::optional<int64_t> step = start ? growth_of(frame, loop, place) : std::nullopt;
  return step ? std::optional(Counter{start->i, *step}) : std::nullopt;
}

}  // namespace mydev::lowering
