#include "lowering/loops/induction.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "lowering/loops/body.h"
#include "stablehlo/evaluator/number.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int64_t kMostIntegers = 8;  // of a tensor that is followed: places in a tensor of so many dimensions

std::optional<Counter> sum(const Counter& a, const Counter& b) {
  Counter sum{};
  const bool overflows =
      __builtin_add_overflow(a.start, b.start, &sum.start) || __builtin_add_overflow(a.step, b.step, &sum.step);
  return overflows ? std::nullopt : std::optional(sum);
}
std::optional<Counter> difference(const Counter& a, const Counter& b) {
  Counter difference{};
  const bool overflows = __builtin_sub_overflow(a.start, b.start, &difference.start) ||
                         __builtin_sub_overflow(a.step, b.step, &difference.step);
  return overflows ? std::nullopt : std::optional(difference);
}

bool holds(ComparisonDirection direction, int64_t difference) noexcept {
  switch (direction) {
    case ComparisonDirection::kLt:
      return difference < 0;
    case ComparisonDirection::kLe:
      return difference <= 0;
    case ComparisonDirection::kGt:
      return difference > 0;
    case ComparisonDirection::kGe:
      return difference >= 0;
    case ComparisonDirection::kEq:
      return difference == 0;
    default:
      return difference != 0;
  }
}

// Whether a part of size `part` of a tensor of these sizes has elements, and no gaps between them.
bool is_without_gaps(const Sizes& part, const Sizes& sizes) {
  int64_t stride = 1, run = 1;
  for (size_t d = part.size(); d-- > 0; stride *= sizes[d]) {
    if (part[d] != 1 && stride != run) return false;
    run *= part[d];
  }
  return run != 0;
}

int64_t offset_of(const Sizes& place, const Sizes& sizes) {
  int64_t offset = 0;
  for (size_t d = 0; d < sizes.size(); ++d) offset = offset * sizes[d] + place[d];
  return offset;
}

}  // namespace

// Goes through an iteration with the known facts of its values.
class Induction::Walk {
 public:
  Walk(Induction& induction, const Frame& frame, const Loop& loop, uint64_t first, uint64_t end)
      : induction_(induction), frame_(frame), loop_(loop), first_(first), last_(end - 1), calls_(frame.context.calls) {}

  void run() {
    for (size_t place = 0; place < loop_.op.operands.size(); ++place) {
      const Value& argument = *loop_.body.arguments()[place];
      if (is_token(argument)) continue;
      if (!loop_.changes(place)) {
        iteration_[&argument] = outer_fact(loop_.op.operand(place));
      } else if (const std::optional<Counter> counter = counter_at(frame_, loop_, place);
                 counter && fits(argument, *counter)) {
        induction_.counters_.emplace(place, *counter);
        iteration_[&argument] = {.integers = {*counter}, .counters = {place}};
      } else {
        iteration_[&argument] = {.tensor = &argument};
      }
    }
    visit(loop_.body.body(), iteration_);
    for (const size_t place : loop_.changing) leave(place);
    for (const size_t place : loop_.changing) decide(place);
    for (const Access& access : accesses_) keep(access);
  }

 private:
  // The known facts of a value: none; or that it is a tensor of the loop, such a tensor with a part written, or certain
  // integers.
  struct Fact {
    const Value* tensor = nullptr;
    std::optional<size_t> update = std::nullopt;  // in accesses_
    std::vector<Counter> integers = {};
    std::set<size_t> counters = {};  // the places of which the integers come
  };
  using Facts = std::unordered_map<const Value*, Fact>;  // of one function that is called, or of the body

  struct Access {
    OperationInCalls operation;
    MovingPart part;
    std::set<size_t> counters;
    bool writes, is_left = false;
  };

  bool fits(const Value& value, const Counter& counter) const {
    const std::optional<int64_t> a = counter.in_iteration(first_), b = counter.in_iteration(last_);
    return a && b && is_of_type({std::min(*a, *b), std::max(*a, *b)}, value.type->element);
  }

  Fact outer_fact(const Value& value) const {
    if (!value.type->is_tensor() || !value.type->is_static()) return {};
    const std::optional<mydev_scalar>& splat = frame_[value].splat;
    const int64_t count = count_of(value.type->dims);
    if (splat && is_signed(*value.type) && count <= kMostIntegers) {
      return {.integers = std::vector(static_cast<size_t>(count), Counter{splat->i, 0})};
    }
    return {.tensor = &value};
  }

  Fact fact_of(const Value& value, const Facts& facts) const {
    const auto found = facts.find(&value);
    if (found != facts.end()) return found->second;
    return &facts == &iteration_ && value.block != &loop_.body.body() && !is_token(value) ? outer_fact(value) : Fact{};
  }

  // Notes a use of a value that is not followed.
  void use(const Fact& fact) {
    if (fact.tensor != nullptr) used_.insert(fact.tensor);
    if (fact.update) used_.insert(accesses_[*fact.update].part.tensor);
    induction_.needed_.insert(fact.counters.begin(), fact.counters.end());
  }

  void visit(const Block& block, Facts& facts) {
    for (const Operation* op : block.operations) {
      if (op != &block.terminator()) visit(*op, facts);
    }
  }

  void visit(const Operation& op, Facts& facts) {
    if (op.op == Operator::kCall) return call(op, facts);
    if (access(op, facts)) return;
    if (const std::optional<Fact> result = evaluate(op, facts)) {
      facts[&op.result()] = *result;
      return;
    }
    for (const Value* operand : op.operands) use(fact_of(*operand, facts));
    for (const Value* value : free_values(op.regions)) use(fact_of(*value, facts));
  }

  void call(const Operation& op, Facts& facts) {
    const Region& body = *frame_.context.module.callee(op).body;
    Facts inner;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      inner[body.arguments()[i]] = fact_of(op.operand(i), facts);
    }
    calls_.push_back(&op);
    visit(body.body(), inner);
    calls_.pop_back();
    for (size_t i = 0; i < op.results.size(); ++i) facts[op.results[i]] = fact_of(*body.results()[i], inner);
  }

  // --- integers ---

  // The outcome of a comparison in all iterations, if it is known and the same in all.
  std::optional<int64_t> outcome(ComparisonDirection direction, const Counter& a, const Counter& b) {
    const std::optional<Counter> d = difference(a, b);
    if (!d) return std::nullopt;
    const auto in_iterations = [&](uint64_t first) -> std::optional<int64_t> {
      const std::optional<int64_t> begin = d->in_iteration(first), end = d->in_iteration(last_);
      if (!begin || !end || holds(direction, *begin) != holds(direction, *end)) return std::nullopt;
      const bool is_equality = direction == ComparisonDirection::kEq || direction == ComparisonDirection::kNe;
      if (is_equality && (*begin > 0) - (*begin < 0) != (*end > 0) - (*end < 0)) return std::nullopt;
      return holds(direction, *begin) ? 1 : 0;
    };
    const std::optional<int64_t> result = in_iterations(first_);
    if (!result && first_ < last_ && in_iterations(first_ + 1)) induction_.differs_in_first_iteration_ = true;
    return result;
  }

  std::optional<Counter> evaluate(const Operation& op, const std::vector<Counter>& operands) {
    const auto choice = [&](std::optional<int64_t> first) {
      return first ? std::optional(operands[*first != 0 ? 0 : 1]) : std::nullopt;
    };
    switch (op.op) {
      case Operator::kAdd:
      case Operator::kSubtract:
        if (!is_signed(*op.result().type)) return std::nullopt;
        return op.op == Operator::kAdd ? sum(operands[0], operands[1]) : difference(operands[0], operands[1]);
      case Operator::kMinimum:
        return choice(outcome(ComparisonDirection::kLe, operands[0], operands[1]));
      case Operator::kMaximum:
        return choice(outcome(ComparisonDirection::kGe, operands[0], operands[1]));
      case Operator::kCompare: {
        const auto direction = op.get<ComparisonDirection>("comparison_direction");
        const std::optional<int64_t> known = outcome(direction, operands[0], operands[1]);
        return known ? std::optional(Counter{*known, 0}) : std::nullopt;
      }
      case Operator::kSelect:
        if (operands[0].step != 0) return std::nullopt;
        return operands[operands[0].start != 0 ? 1 : 2];
      case Operator::kConvert:
        if (!is_signed(*op.result().type)) return std::nullopt;
        return operands[0];
      case Operator::kReshape:
        return operands[0];
      case Operator::kBroadcastInDim:
        if (op.operand(0).type->rank() > 1) return std::nullopt;
        return operands[0];
      default:
        return std::nullopt;
    }
  }

  // The integers that the operation gives, if they are known.
  std::optional<Fact> evaluate(const Operation& op, const Facts& facts) {
    if (op.results.size() != 1 || !op.result().type->is_tensor() || !op.result().type->is_static()) return std::nullopt;
    const Type& type = *op.result().type;
    const int64_t count = count_of(type.dims);
    if ((!is_signed(type) && type.element != ElementType::kPred) || count == 0 || count > kMostIntegers) {
      return std::nullopt;
    }
    if (op.op == Operator::kConstant) return constant(op, type, count);
    Fact result;
    std::vector<Fact> operands;
    for (const Value* operand : op.operands) {
      operands.push_back(fact_of(*operand, facts));
      if (operands.back().integers.empty()) return std::nullopt;
      result.counters.insert(operands.back().counters.begin(), operands.back().counters.end());
    }
    if (op.op == Operator::kConcatenate && type.rank() == 1) {
      for (const Fact& operand : operands) {
        result.integers.insert(result.integers.end(), operand.integers.begin(), operand.integers.end());
      }
      return result;
    }
    const auto is_of_count = [&](const Fact& operand) {
      return operand.integers.size() == 1 || operand.integers.size() == static_cast<size_t>(count);
    };
    if (operands.empty() || !std::ranges::all_of(operands, is_of_count)) return std::nullopt;
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      std::vector<Counter> given;
      given.reserve(operands.size());
      for (const Fact& operand : operands) given.push_back(operand.integers[operand.integers.size() == 1 ? 0 : i]);
      const std::optional<Counter> integer = evaluate(op, given);
      if (!integer || (is_signed(type) && !fits(op.result(), *integer))) return std::nullopt;
      result.integers.push_back(*integer);
    }
    return result;
  }

  static std::optional<Fact> constant(const Operation& op, const Type& type, int64_t count) {
    if (!is_signed(type)) return std::nullopt;
    const TensorLiteral& literal = op.literal("value");
    const auto bytes = static_cast<size_t>(element_row(type.element).bits / 8);
    if (bytes == 0) return std::nullopt;
    const size_t given = literal.bytes.size() / bytes;  // one for all, or each
    Fact result;
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      const std::byte* at = literal.bytes.data() + (given == static_cast<size_t>(count) ? i * bytes : 0);
      result.integers.push_back({load(type.element, at).integer, 0});
    }
    return result;
  }

  // --- parts of tensors ---

  bool access(const Operation& op, Facts& facts) {
    switch (op.op) {
      case Operator::kDynamicSlice:
        return access(op, facts, {op.operands.begin() + 1, op.operands.end()}, op.result().type->dims, false);
      case Operator::kDynamicUpdateSlice:
        return access(op, facts, {op.operands.begin() + 2, op.operands.end()}, op.operand(1).type->dims, true);
      case Operator::kScatter:
        return scatter(op, facts);
      default:
        return false;
    }
  }

  bool access(const Operation& op, Facts& facts, const std::vector<const Value*>& places, const Sizes& sizes,
              bool writes) {
    std::vector<Counter> start;
    std::set<size_t> counters;
    for (const Value* place : places) {
      const Fact fact = fact_of(*place, facts);
      if (fact.integers.size() != 1) return false;
      start.push_back(fact.integers[0]);
      counters.insert(fact.counters.begin(), fact.counters.end());
    }
    return add_access(op, facts, start, std::move(counters), sizes, writes);
  }

  // Notes a scatter that sets one part.
  bool scatter(const Operation& op, Facts& facts) {
    if (op.results.size() != 1 || op.operands.size() != 3) return false;
    const Block& body = op.region().body();
    if (body.operations.size() != 1 || body.terminator().operands[0] != body.arguments[1]) return false;
    const Sizes &sizes = op.operand(0).type->dims, &updates = op.operand(2).type->dims;
    const Sizes window = op.integers("update_window_dims"), inserted = op.integers("inserted_window_dims"),
                map = op.integers("scatter_dims_to_operand_dims");
    const Fact index = fact_of(op.operand(1), facts);
    if (index.integers.empty() || index.integers.size() != map.size() ||
        !op.integers_or_none("input_batching_dims").empty()) {
      return false;
    }
    for (size_t d = 0; d < updates.size(); ++d) {
      if (std::ranges::count(window, static_cast<int64_t>(d)) == 0 && updates[d] != 1) return false;
    }
    Sizes part;
    size_t next = 0;
    for (size_t d = 0; d < sizes.size(); ++d) {
      const bool is_inserted = std::ranges::count(inserted, static_cast<int64_t>(d)) != 0;
      part.push_back(is_inserted ? 1 : updates[static_cast<size_t>(window[next++])]);
    }
    std::vector<Counter> start(sizes.size(), Counter{0, 0});
    for (size_t i = 0; i < map.size(); ++i) start[static_cast<size_t>(map[i])] = index.integers[i];
    return add_access(op, facts, start, index.counters, part, true);
  }

  // Notes an access to a part that moves, and lies in the tensor in all iterations; false for others.
  bool add_access(const Operation& op, Facts& facts, const std::vector<Counter>& start, std::set<size_t> counters,
                  const Sizes& sizes, bool writes) {
    const Fact tensor = fact_of(op.operand(0), facts);
    if (tensor.tensor == nullptr || (writes && tensor.tensor->block != &loop_.body.body())) return false;
    const Sizes& whole = tensor.tensor->type->dims;
    Sizes first, steps;
    for (size_t d = 0; d < whole.size(); ++d) {
      for (const uint64_t iteration : {first_, last_}) {
        const std::optional<int64_t> place = start[d].in_iteration(iteration);
        if (!place || *place < 0 || *place > whole[d] - sizes[d]) return false;
      }
      first.push_back(start[d].known_in_iteration(first_));
      steps.push_back(start[d].step);
    }
    if (!is_without_gaps(sizes, whole) || offset_of(steps, whole) == 0) return false;
    if (writes) use(fact_of(op.operand(op.op == Operator::kScatter ? 2 : 1), facts));
    accesses_.push_back({{calls_, &op},
                         {tensor.tensor, std::move(first), sizes, offset_of(steps, whole), writes},
                         std::move(counters),
                         writes});
    if (writes) facts[&op.result()] = {.update = accesses_.size() - 1};
    return true;
  }

  // Follows the value that an iteration leaves to the next at a place of the state.
  void leave(size_t place) {
    const Fact left = fact_of(*loop_.body.results()[place], iteration_);
    const auto counter = induction_.counters_.find(place);
    if (counter != induction_.counters_.end() && left.integers.size() == 1) {
      const Counter &now = counter->second, &next = left.integers[0];
      if (next.step == now.step && now.in_iteration(1) == next.start) return;
    }
    const Value* argument = loop_.body.arguments()[place];
    if (left.update && accesses_[*left.update].part.tensor == argument && !accesses_[*left.update].is_left) {
      accesses_[*left.update].is_left = true;
      return;
    }
    use(left);
  }

  // Decides whether an iteration only writes one part of the value at a place, and only reads parts that are the same
  // one or do not overlap it.
  void decide(size_t place) {
    const Value* argument = loop_.body.arguments()[place];
    const Access* written = nullptr;
    bool is_apart = !used_.contains(argument);
    for (const Access& access : accesses_) {
      if (access.part.tensor != argument || !access.writes) continue;
      is_apart = is_apart && written == nullptr && access.is_left;
      written = &access;
    }
    for (const Access& access : accesses_) {
      if (access.part.tensor != argument || access.writes) continue;
      is_apart = is_apart && written != nullptr && is_same_or_apart(access.part, written->part);
    }
    if (!is_apart) in_the_way_.insert(argument);
  }

  static bool is_same_or_apart(const MovingPart& a, const MovingPart& b) {
    if (a.advance != b.advance) return false;
    if (a.start == b.start && a.sizes == b.sizes) return true;
    const Sizes& whole = a.tensor->type->dims;
    const int64_t at_a = offset_of(a.start, whole), at_b = offset_of(b.start, whole);
    return at_a + count_of(a.sizes) <= at_b || at_b + count_of(b.sizes) <= at_a;
  }

  void keep(const Access& access) {
    if (in_the_way_.contains(access.part.tensor)) {
      induction_.needed_.insert(access.counters.begin(), access.counters.end());
      return;
    }
    std::vector<MovingPart>& parts = induction_.parts_;
    const auto found = std::ranges::find_if(parts, [&](const MovingPart& part) {
      return part.tensor == access.part.tensor && part.start == access.part.start && part.sizes == access.part.sizes &&
             part.advance == access.part.advance;
    });
    const auto index = static_cast<size_t>(found - parts.begin());
    if (found == parts.end()) parts.push_back(access.part);
    induction_.accesses_.emplace(access.operation, index);
    if (!access.writes) return;
    parts[index].is_written = true;
    induction_.written_.emplace(access.part.tensor->index, index);
  }

  Induction& induction_;
  const Frame& frame_;
  const Loop& loop_;
  uint64_t first_, last_;
  std::vector<const Operation*> calls_;
  Facts iteration_;
  std::vector<Access> accesses_;
  std::set<const Value*> used_;        // otherwise than by parts
  std::set<const Value*> in_the_way_;  // whose parts are not followed
};

Induction::Induction(const Frame& frame, const Loop& loop, uint64_t first, uint64_t end) {
  Walk(*this, frame, loop, first, end).run();
}

std::optional<Counter> Induction::counter(size_t place) const {
  const auto found = counters_.find(place);
  return found != counters_.end() ? std::optional(found->second) : std::nullopt;
}

std::optional<size_t> Induction::written_part(size_t place) const {
  const auto found = written_.find(place);
  return found != written_.end() ? std::optional(found->second) : std::nullopt;
}

}  // namespace mydev::lowering
