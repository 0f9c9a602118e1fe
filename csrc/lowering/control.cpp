// Control flow: bodies as programs of their own, calls inlined. Also operators that do nothing here.
//
// A body takes what it uses of the values around it as parameters. Of a loop, values that change from round to round
// are updated in place: parameters that are donated and returned.
#include <algorithm>
#include <array>
#include <set>

#include "lowering/frame.h"
#include "program/simplify.h"
#include "runtime/base/status.h"
#include "stablehlo/evaluator/number.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

bool is_token(const Value& value) noexcept {
  return value.type->kind == TypeKind::kToken;
}

void collect_uses(const Region& region, std::vector<const Value*>& used, std::set<const Value*>& inside) {
  for (const Block* block : region.blocks) {
    inside.insert(block->arguments.begin(), block->arguments.end());
    for (const Operation* op : block->operations) {
      used.insert(used.end(), op->operands.begin(), op->operands.end());
      inside.insert(op->results.begin(), op->results.end());
      for (const Region* inner : op->regions) collect_uses(*inner, used, inside);
    }
  }
}

// What the regions use of the values around them, each once; without tokens.
std::vector<const Value*> free_values(std::span<const Region* const> regions) {
  std::vector<const Value*> used, free;
  std::set<const Value*> inside;
  for (const Region* region : regions) collect_uses(*region, used, inside);
  for (const Value* value : used) {
    if (inside.insert(value).second && !is_token(*value)) free.push_back(value);
  }
  return free;
}

// A program that is called, while it is built.
class Body {
 public:
  Body(Frame& outer, const char* name)
      : builder_(name + std::to_string(++outer.context.bodies)),
        emit_(builder_),
        frame_(outer.context, emit_, outer.function) {}

  Frame& frame() noexcept { return frame_; }
  Emitter& emit() noexcept { return emit_; }

  program::SlotIndex parameter(mydev_dtype dtype, const Sizes& sizes) { return builder_.parameter(dtype, sizes); }
  // Of what the caller gives for a tensor. Constants are made anew: nothing is given for them.
  void take(const Value& value, const Frame& outer) {
    const Tensor& given = outer[value];
    if (given.splat) {
      const std::vector<std::byte>& bytes = outer.emit.builder().slots()[given.view.slot].data;
      return frame_.set(value, emit_.splat(given.view.dtype, given.sizes(), *given.splat, bytes));
    }
    frame_.set(value, {builder_.view(builder_.parameter(given.view.dtype, given.sizes())), std::nullopt});
  }
  program::Operand updated(const program::Operand& given) {
    const program::SlotIndex slot = builder_.parameter(given.dtype, given.sizes, /*donated=*/true);
    builder_.returns(slot);
    return builder_.view(slot);
  }
  void return_values(std::span<const Value* const> values) {
    for (const Value* value : values) {
      if (!is_token(*value)) builder_.returns(emit_.duplicate(frame_.view(*value)).slot);
    }
  }
  program::SharedProgram build() && { return program::simplify(*std::move(builder_).build()); }

 private:
  program::ProgramBuilder builder_;
  Emitter emit_;
  Frame frame_;
};

// What a caller gives for the values that a body takes.
void give(Frame& frame, std::span<const Value* const> values, std::vector<program::Operand>& operands) {
  for (const Value* value : values) {
    if (!frame[*value].splat) operands.push_back(frame.emit.dense(frame.view(*value)));
  }
}

// --- loops -----------------------------------------------------------------------------------------------------------

struct Loop {
  const Operation& op;
  const Region &condition, &body;
  std::vector<size_t> changing;  // places of the values that change; tokens and the others do not

  explicit Loop(const Operation& op) : op(op), condition(op.region(0)), body(op.region(1)) {
    for (size_t i = 0; i < op.operands.size(); ++i) {
      if (!is_token(op.operand(i)) && body.results()[i] != body.arguments()[i]) changing.push_back(i);
    }
  }
  bool changes(size_t i) const { return std::ranges::binary_search(changing, i); }

  // Arguments of a region: those that change, where they are updated; the others as the frame has them.
  void bind(Frame& frame, const Region& region, std::span<const program::Operand> state) const {
    size_t next = 0;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      if (is_token(op.operand(i))) continue;
      frame.set(*region.arguments()[i], changes(i) ? Tensor{state[next++]} : frame[op.operand(i)]);
    }
  }
};

// The integer that a value of a region of the loop is, if that is known.
std::optional<int64_t> integer_of(const Frame& frame, const Loop& loop, const Value& value) {
  if (value.type->rank() != 0 || element_row(value.type->element).kind != ElementKind::kSigned) return std::nullopt;
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

// By how much a value of the state grows in each round, if that is known: i + step, in the body or in what it calls.
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

// A loop of i < limit, i + step: how many rounds it has, and where in the state i is.
struct Counted {
  uint64_t rounds;
  size_t counter;
  int64_t end;  // what i is then
};

// So a device need not be asked each time.
std::optional<Counted> counted(const Frame& frame, const Loop& loop) {
  const Operation* test = loop.condition.results()[0]->definition;
  if (test == nullptr || test->op != Operator::kCompare || test->block != &loop.condition.body() ||
      test->get<ComparisonDirection>("comparison_direction") != ComparisonDirection::kLt) {
    return std::nullopt;
  }
  const Value& counter = test->operand(0);
  if (counter.definition != nullptr || counter.block != &loop.condition.body()) return std::nullopt;
  const auto limit = integer_of(frame, loop, test->operand(1)), step = growth_of(frame, loop, counter.index);
  const std::optional<mydev_scalar>& start = frame[loop.op.operand(counter.index)].splat;
  if (!limit || !step || !start || *step <= 0) return std::nullopt;
  int64_t distance = 0, last = 0;
  if (__builtin_sub_overflow(*limit, start->i, &distance) || __builtin_add_overflow(*limit, *step, &last)) {
    return std::nullopt;
  }
  const int64_t rounds = distance <= 0 ? 0 : (distance - 1) / *step + 1;
  const int64_t end = start->i + rounds * *step;
  if (!is_of_type({end, end}, counter.type->element)) return std::nullopt;  // it wraps, and goes on
  return Counted{static_cast<uint64_t>(rounds), counter.index, end};
}

// What the value is in the rounds of a counted loop, if it is an integer that grows by a known step.
std::optional<Range> range_in(const Frame& frame, const Loop& loop, const Counted& counted, size_t place) {
  const std::optional<mydev_scalar>& start = frame[loop.op.operand(place)].splat;
  const std::optional<int64_t> step = growth_of(frame, loop, place);
  int64_t distance = 0, last = 0;
  if (!start || !step || counted.rounds == 0 ||
      __builtin_mul_overflow(static_cast<int64_t>(counted.rounds - 1), *step, &distance) ||
      __builtin_add_overflow(start->i, distance, &last)) {
    return std::nullopt;
  }
  const Range range{std::min(start->i, last), std::max(start->i, last)};
  return is_of_type(range, loop.op.operand(place).type->element) ? std::optional(range) : std::nullopt;
}

// Whether the body only counts with it, and what comes of it is not asked for, or is known.
bool is_only_counted(Frame& frame, const Loop& loop, const Counted& counted, size_t place) {
  Context& context = frame.context;
  const Operation* next = loop.body.results()[place]->definition;
  if (next == nullptr || next->op != Operator::kAdd || next->block != &loop.body.body()) return false;
  return context.only_user(*loop.body.arguments()[place]) == next &&
         context.only_user(next->result()) == &loop.body.body().terminator() &&
         (place == counted.counter || context.uses_of(loop.op.result(place)).count == 0);
}

bool is_whole(const program::Operand& a, const program::Operand& b) {
  return a.slot == b.slot && a.offset == b.offset && a.sizes == b.sizes && a.strides == b.strides;
}

// The state after a round, from values that may be views of the state before it.
void update_state(Frame& frame, const Loop& loop, std::span<const program::Operand> state) {
  std::vector<program::Operand> values;
  for (size_t k = 0; k < state.size(); ++k) {
    const program::Operand& value = frame.view(*loop.body.results()[loop.changing[k]]);
    const bool of_state = std::ranges::any_of(state, [&](const auto& other) { return other.slot == value.slot; });
    values.push_back(of_state && !is_whole(value, state[k]) ? frame.emit.duplicate(value) : value);
  }
  for (size_t k = 0; k < state.size(); ++k) {
    if (!is_whole(values[k], state[k])) frame.emit.copy(state[k], values[k]);
  }
}

void lower_while(Frame& frame, const Operation& op) {
  Loop loop(op);
  Emitter& emit = frame.emit;
  const std::optional<Counted> rounds = counted(frame, loop);
  if (rounds) std::erase_if(loop.changing, [&](size_t i) { return is_only_counted(frame, loop, *rounds, i); });
  std::vector<program::Operand> state;
  state.reserve(loop.changing.size());
  for (const size_t i : loop.changing) state.push_back(emit.duplicate(frame.view(op.operand(i))));
  program::Operand predicate;
  if (!rounds) {
    loop.bind(frame, loop.condition, state);
    lower_block(frame, loop.condition.body());
    predicate = emit.duplicate(frame.view(*loop.condition.results()[0]));
  }

  const std::array regions = {&loop.condition, &loop.body};
  std::vector<const Value*> taken = free_values(regions);
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Value* value = &op.operand(i);
    if (!loop.changes(i) && !is_token(*value) && std::ranges::count(taken, value) == 0) taken.push_back(value);
  }
  Body body(frame, "round");
  std::vector<program::Operand> inner, operands = state;
  for (const program::Operand& value : state) inner.push_back(body.updated(value));
  program::Operand inner_predicate;
  if (!rounds) {
    inner_predicate = body.updated(predicate);
    operands.push_back(predicate);
  }
  for (const Value* value : taken) body.take(*value, frame);
  give(frame, taken, operands);
  loop.bind(body.frame(), loop.body, inner);
  for (size_t i = 0; rounds && i < op.operands.size(); ++i) {
    if (is_token(op.operand(i)) || !loop.changes(i)) continue;
    const Value& argument = *loop.body.arguments()[i];
    Tensor tensor = body.frame()[argument];
    tensor.range = range_in(frame, loop, *rounds, i);
    body.frame().set(argument, std::move(tensor));
  }
  lower_block(body.frame(), loop.body.body());
  update_state(body.frame(), loop, inner);
  body.emit().forget();
  if (rounds) {
    emit.builder().repeat(rounds->rounds, std::move(body).build(), operands);
  } else {
    loop.bind(body.frame(), loop.condition, inner);
    lower_block(body.frame(), loop.condition.body());
    body.emit().copy(inner_predicate, body.frame().view(*loop.condition.results()[0]));
    emit.builder().loop_while(predicate, std::move(body).build(), operands);
  }
  emit.forget();

  size_t next = 0;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (is_token(op.operand(i))) continue;
    frame.set(op.result(i), loop.changes(i) ? Tensor{state[next++]} : frame[op.operand(i)]);
  }
  if (!rounds || loop.changes(rounds->counter)) return;
  const mydev_dtype dtype = frame.view(op.operand(rounds->counter)).dtype;
  frame.set(op.result(rounds->counter), emit.integer_splat(dtype, {}, rounds->end));
}

// --- conditions ------------------------------------------------------------------------------------------------------

// Branches from `first` on, of which the index says one; of a condition: 0 is the first.
class Branches {
 public:
  explicit Branches(const Operation& op) : op_(op), index_(op.operand(0)), taken_(free_values(op.regions)) {
    if (std::ranges::count(taken_, &index_) == 0) taken_.push_back(&index_);
  }

  void lower(Frame& frame, size_t first) const {
    const size_t last = op_.regions.size() - 1;
    const program::Operand predicate = predicate_of(frame, first);
    program::SharedProgram then = branch(frame, op_.region(first));
    program::SharedProgram otherwise = first + 1 == last ? branch(frame, op_.region(last)) : rest(frame, first + 1);
    std::vector<program::Operand> operands, results;
    give(frame, taken_, operands);
    for (const Value* result : op_.results) {
      if (is_token(*result)) continue;
      results.push_back(frame.result_of(*result));
      frame.set(*result, {results.back(), std::nullopt});
    }
    frame.emit.builder().conditional(predicate, std::move(then), std::move(otherwise), results, operands);
  }

 private:
  program::Operand predicate_of(Frame& frame, size_t branch) const {
    Emitter& emit = frame.emit;
    const Tensor& index = frame[index_];
    if (op_.op == Operator::kIf) return emit.dense(index.view);
    const Tensor number = emit.integer_splat(index.view.dtype, index.sizes(), static_cast<int64_t>(branch));
    return emit.pointwise("mydev.eq", MYDEV_PRED, {index, number}).view;
  }
  program::SharedProgram branch(Frame& frame, const Region& region) const {
    Body body(frame, "branch");
    for (const Value* value : taken_) body.take(*value, frame);
    lower_block(body.frame(), region.body());
    body.return_values(region.results());
    return std::move(body).build();
  }
  program::SharedProgram rest(Frame& frame, size_t first) const {
    Body body(frame, "branch");
    for (const Value* value : taken_) body.take(*value, frame);
    lower(body.frame(), first);
    body.return_values(op_.results);
    return std::move(body).build();
  }

  const Operation& op_;
  const Value& index_;
  std::vector<const Value*> taken_;
};

// --- calls -----------------------------------------------------------------------------------------------------------

void lower_inline(Frame& frame, const Operation& op, Frame& callee, const Region& region) {
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (!is_token(op.operand(i))) callee.set(*region.arguments()[i], frame[op.operand(i)]);
  }
  lower_block(callee, region.body());
  for (size_t i = 0; i < op.results.size(); ++i) {
    if (!is_token(op.result(i))) frame.set(op.result(i), callee[*region.results()[i]]);
  }
}

void lower_call(Frame& frame, const Operation& op, const Function& function) {
  Frame callee(frame.context, frame.emit, function);
  lower_inline(frame, op, callee, *function.body);
}

void pass_on(Frame& frame, const Operation& op) {
  for (size_t i = 0; i < op.results.size(); ++i) {
    if (!is_token(op.result(i))) frame.set(op.result(i), frame[op.operand(i)]);
  }
}

}  // namespace

bool lower_control(Frame& frame, const Operation& op) {
  if (op.row().has(kIdentity)) {
    pass_on(frame, op);
    return true;
  }
  switch (op.op) {
    case Operator::kWhile:
      lower_while(frame, op);
      return true;
    case Operator::kIf:
    case Operator::kCase:
      if (op.regions.size() == 1) {
        lower_block(frame, op.region().body());
        for (size_t i = 0; i < op.results.size(); ++i) {
          if (!is_token(op.result(i))) frame.set(op.result(i), frame[*op.region().results()[i]]);
        }
      } else {
        Branches(op).lower(frame, 0);
      }
      return true;
    case Operator::kCall:
      lower_call(frame, op, frame.context.module.callee(op));
      return true;
    case Operator::kComposite:
      lower_call(frame, op, frame.context.module.callee(op, "decomposition"));
      return true;
    case Operator::kSdyManualComputation:
      return lower_manual_computation(frame, op);
    case Operator::kSdyNamedComputation:
      lower_inline(frame, op, frame, op.region());
      return true;
    case Operator::kOptimizationBarrier:
      pass_on(frame, op);
      return true;
    case Operator::kInfeed:
    case Operator::kOutfeed:
    case Operator::kSend:
    case Operator::kRecv:
      op.fail(MYDEV_UNIMPLEMENTED,
              "exchanges data with the host while the program runs; io_callback is what is supported for that");
    case Operator::kAfterAll:
    case Operator::kCreateToken:
    case Operator::kSdyShardingGroup:
      return true;
    case Operator::kCustomCall:
      return lower_custom_call(frame, op);
    default:
      return false;
  }
}

}  // namespace mydev::lowering
