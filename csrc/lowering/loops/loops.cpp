// Loops: bodies as programs of their own. Values that change from iteration to iteration are updated in place: they are
// parameters that are donated and returned.
#include <algorithm>
#include <array>
#include <utility>

#include "lowering/loops/body.h"
#include "lowering/loops/induction.h"
#include "runtime/base/status.h"
#include "runtime/frame/dtype.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

using Views = std::vector<program::Operand>;

// Binds the arguments of a region: those that change to the state that is updated, the others to the frame's tensors.
void bind_arguments(Frame& frame, const Loop& loop, const Region& region, const Views& state) {
  size_t next = 0;
  for (size_t i = 0; i < loop.op.operands.size(); ++i) {
    if (is_token(loop.op.operand(i))) continue;
    frame.set(*region.arguments()[i], loop.changes(i) ? Tensor{state[next++]} : frame[loop.op.operand(i)]);
  }
}

bool is_whole(const program::Operand& a, const program::Operand& b) {
  return a.slot == b.slot && a.offset == b.offset && a.sizes == b.sizes && a.strides == b.strides;
}

// Sets the state after an iteration, from values that may be views of the state before it.
void update_state(Emitter& emit, const Views& state, Views values) {
  for (size_t k = 0; k < state.size(); ++k) {
    const bool of_state = std::ranges::any_of(state, [&](const auto& other) { return other.slot == values[k].slot; });
    if (of_state && !is_whole(values[k], state[k])) values[k] = emit.duplicate(values[k]);
  }
  for (size_t k = 0; k < state.size(); ++k) {
    if (!is_whole(values[k], state[k])) emit.copy(state[k], values[k]);
  }
}

Views duplicated_state(Frame& frame, const Loop& loop) {
  Views state;
  state.reserve(loop.changing.size());
  for (const size_t i : loop.changing) state.push_back(frame.emit.duplicate(frame.view(loop.op.operand(i))));
  return state;
}

// The values around the loop that a body uses, including the loop's operands that do not change.
std::vector<const Value*> taken_values(const Loop& loop) {
  const std::array regions = {&loop.condition, &loop.body};
  std::vector<const Value*> taken = free_values(regions);
  for (size_t i = 0; i < loop.op.operands.size(); ++i) {
    const Value* value = &loop.op.operand(i);
    if (!loop.changes(i) && !is_token(*value) && std::ranges::count(taken, value) == 0) taken.push_back(value);
  }
  return taken;
}

void set_results(Frame& frame, const Loop& loop, const Views& state) {
  size_t next = 0;
  for (size_t i = 0; i < loop.op.operands.size(); ++i) {
    if (is_token(loop.op.operand(i))) continue;
    frame.set(loop.op.result(i), loop.changes(i) ? Tensor{state[next++]} : frame[loop.op.operand(i)]);
  }
}

// --- loops that test in each iteration ------------------------------------------------------------------------------

void lower_asking(Frame& frame, const Loop& loop) {
  Emitter& emit = frame.emit;
  const Views state = duplicated_state(frame, loop);
  bind_arguments(frame, loop, loop.condition, state);
  lower_block(frame, loop.condition.body());
  const program::Operand predicate = emit.duplicate(frame.view(*loop.condition.results()[0]));

  Body body(frame, "iteration");
  Frame& inside = body.frame();
  Views inner, values, operands = state;
  for (const program::Operand& value : state) inner.push_back(body.updated(value));
  const program::Operand inner_predicate = body.updated(predicate);
  operands.push_back(predicate);
  const std::vector<const Value*> taken = taken_values(loop);
  for (const Value* value : taken) body.take(*value, frame);
  give(frame, taken, operands);
  bind_arguments(inside, loop, loop.body, inner);
  lower_block(inside, loop.body.body());
  for (const size_t i : loop.changing) values.push_back(inside.view(*loop.body.results()[i]));
  update_state(body.emit(), inner, std::move(values));
  body.emit().forget();
  bind_arguments(inside, loop, loop.condition, inner);
  lower_block(inside, loop.condition.body());
  body.emit().copy(inner_predicate, inside.view(*loop.condition.results()[0]));
  emit.builder().loop_while(predicate, std::move(body).build(), operands);
  emit.forget();
  set_results(frame, loop, state);
}

// --- loops that count -----------------------------------------------------------------------------------------------

// The iterations that one induction covers.
class Iterations {
 public:
  Iterations(Frame& frame, const Loop& loop, uint64_t first, uint64_t end)
      : frame_(frame), loop_(loop), first_(first), end_(end), induction_(frame, loop, first, end) {}

  const Induction& induction() const noexcept { return induction_; }

  void lower(const Views& state) {
    Body body(frame_, "iteration");
    for (size_t k = 0; k < state.size(); ++k) {
      if (induction_.written_part(loop_.changing[k])) {
        inner_.emplace_back();
      } else {
        operands_.push_back(state[k]);
        inner_.push_back(body.updated(state[k]));
      }
    }
    advances_.resize(operands_.size());
    for (const MovingPart& part : induction_.parts()) take(body, part, state);
    const std::vector<const Value*> taken = taken_values(loop_);
    for (const Value* value : taken) body.take(*value, frame_);
    give(frame_, taken, operands_);
    advances_.resize(operands_.size());
    bind(body);

    Context& context = frame_.context;
    for (const auto& [operation, part] : induction_.accesses()) context.moving[operation] = &moving_[part];
    lower_block(body.frame(), loop_.body.body());
    for (const auto& [operation, part] : induction_.accesses()) context.moving.erase(operation);
    update(body);
    body.emit().forget();
    frame_.emit.builder().repeat(end_ - first_, std::move(body).build(), std::move(operands_), std::move(advances_));
    frame_.emit.forget();
  }

 private:
  void take(Body& body, const MovingPart& part, const Views& state) {
    const auto place = std::ranges::find(loop_.body.arguments(), part.tensor);
    program::Operand whole;
    if (place != loop_.body.arguments().end()) {
      const auto k = std::ranges::find(loop_.changing, static_cast<size_t>(place - loop_.body.arguments().begin()));
      whole = state[static_cast<size_t>(k - loop_.changing.begin())];
    } else {
      Tensor dense = frame_[*part.tensor];
      dense.view = frame_.emit.dense(dense.view);
      if (!dense.splat) frame_.set(*part.tensor, dense);  // there may be other parts of it
      whole = dense.view;
    }
    const program::Operand given =
        dense_reshaped(sliced(whole, part.start, part.sizes, Sizes(part.sizes.size(), 1)), part.sizes);
    operands_.push_back(given);
    advances_.push_back(part.advance * dtype_size(given.dtype));
    moving_.push_back({part.is_written ? body.updated(given) : body.read(given), {}});
  }

  // The same as bind_arguments, and sets the ranges of counters. Counters that are left out get their value in the
  // first of these iterations.
  void bind(Body& body) {
    Frame& inside = body.frame();
    for (size_t k = 0; k < inner_.size(); ++k) {
      const std::optional<size_t> part = induction_.written_part(loop_.changing[k]);
      if (part) inner_[k] = moving_[*part].view;
    }
    bind_arguments(inside, loop_, loop_.body, inner_);
    for (size_t i = 0; i < loop_.op.operands.size(); ++i) {
      const std::optional<Counter> counter = induction_.counter(i);
      if (!counter) continue;
      const Value& argument = *loop_.body.arguments()[i];
      const int64_t first = counter->known_in_iteration(first_), last = counter->known_in_iteration(end_ - 1);
      Tensor tensor =
          loop_.changes(i) ? inside[argument] : body.emit().integer_splat(dtype_of(argument.type->element), {}, first);
      if (loop_.changes(i)) tensor.range = Range{std::min(first, last), std::max(first, last)};
      inside.set(argument, std::move(tensor));
    }
  }

  void update(Body& body) {
    Views state, values;
    for (size_t k = 0; k < inner_.size(); ++k) {
      const std::optional<size_t> part = induction_.written_part(loop_.changing[k]);
      state.push_back(inner_[k]);
      values.push_back(part ? moving_[*part].written : body.frame().view(*loop_.body.results()[loop_.changing[k]]));
    }
    update_state(body.emit(), state, std::move(values));
  }

  Frame& frame_;
  const Loop& loop_;
  uint64_t first_, end_;
  Induction induction_;
  Views inner_, operands_;
  std::vector<int64_t> advances_;
  std::vector<MovingView> moving_;  // of the induction's parts
};

bool has_loops(const Region& region) {
  return std::ranges::any_of(region.body().operations, [](const Operation* op) { return op->op == Operator::kWhile; });
}

// All iterations alike, or the first apart: JAX tests whether i - 1 is negative, which it is in the first iteration
// only.
std::vector<Iterations> split(Frame& frame, const Loop& loop, uint64_t count) {
  std::vector<Iterations> iterations;
  iterations.emplace_back(frame, loop, 0, count);
  if (count == 1 || !iterations[0].induction().differs_in_first_iteration() || has_loops(loop.body)) return iterations;
  Iterations others(frame, loop, 1, count);
  if (others.induction().accesses().size() <= iterations[0].induction().accesses().size()) return iterations;
  std::vector<Iterations> apart;
  apart.emplace_back(frame, loop, 0, 1);
  apart.push_back(std::move(others));
  return apart;
}

void lower_counting(Frame& frame, Loop& loop, uint64_t count) {
  std::vector<Iterations> all = split(frame, loop, count);
  std::erase_if(loop.changing, [&](size_t i) {
    return std::ranges::all_of(all,
                               [&](const Iterations& iterations) { return iterations.induction().is_only_counted(i); });
  });
  const Views state = duplicated_state(frame, loop);
  for (Iterations& iterations : all) iterations.lower(state);
  set_results(frame, loop, state);
  for (size_t i = 0; i < loop.op.operands.size(); ++i) {
    const std::optional<Counter> counter = all[0].induction().counter(i);
    if (!counter || loop.changes(i)) continue;
    const mydev_dtype dtype = frame.view(loop.op.operand(i)).dtype;
    frame.set(loop.op.result(i), frame.emit.integer_splat(dtype, {}, counter->known_in_iteration(count)));
  }
}

}  // namespace

void lower_while(Frame& frame, const Operation& op) {
  Loop loop(op);
  const std::optional<uint64_t> count = trip_count_of(frame, loop);
  if (!count) return lower_asking(frame, loop);
  if (*count != 0) return lower_counting(frame, loop, *count);
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (!is_token(op.operand(i))) frame.set(op.result(i), frame[op.operand(i)]);
  }
}

bool lower_moving_part(Frame& frame, const Operation& op) {
  if (frame.context.moving.empty()) return false;
  const auto found = frame.context.moving.find({frame.context.calls, &op});
  if (found == frame.context.moving.end()) return false;
  MovingView& moving = *found->second;
  if (op.op != Operator::kDynamicSlice) {
    const Value& value = op.operand(op.op == Operator::kScatter ? 2 : 1);
    moving.written = frame.emit.reshape(frame.view(value), moving.view.sizes);
  }
  frame.set(op.result(), {moving.view});
  return true;
}

}  // namespace mydev::lowering
