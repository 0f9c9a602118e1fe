// Conditions, whose branches are programs of their own, and calls, which are inlined. Also operators that do nothing
// here.
#include <algorithm>
#include <utility>

#include "lowering/frame.h"
#include "lowering/loops/body.h"
#include "runtime/base/status.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

// --- conditions ------------------------------------------------------------------------------------------------------

// Branches from `first` on, of which the index says one; of a condition: 0 is the first.
class Branches {
 public:
  explicit Branches(const Operation& op) : op_(op), index_(op.operand(0)), taken_(free_values(op.regions)) {
    if (std::ranges::count(taken_, &index_) == 0) taken_.push_back(&index_);
  }

  void lower(Frame& frame, size_t first) const {
    const size_t last = op_.regions.size() - 1;
    const Value* const condition = condition_of_index(frame);
    const program::Operand predicate =
        condition != nullptr ? frame.emit.dense(frame[*condition].view) : predicate_of(frame, first);
    program::SharedProgram then = branch(frame, op_.region(first));
    program::SharedProgram otherwise = first + 1 == last ? branch(frame, op_.region(last)) : rest(frame, first + 1);
    if (condition != nullptr) std::swap(then, otherwise);
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
  // Returns the condition that an index of two branches is converted from, as by jax.lax.cond; nullptr: it is not.
  const Value* condition_of_index(Frame& frame) const {
    const Operation* const definition = index_.definition;
    if (op_.op != Operator::kCase || op_.regions.size() != 2 || definition == nullptr ||
        definition->op != Operator::kConvert || definition->block != op_.block) {
      return nullptr;
    }
    const Value& condition = definition->operand(0);
    return frame[condition].view.dtype == MYDEV_PRED ? &condition : nullptr;
  }
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
  for (size_t i = 0; i < op.operands.size(); ++i) callee.pass(*region.arguments()[i], frame, op.operand(i));
  lower_block(callee, region.body());
  for (size_t i = 0; i < op.results.size(); ++i) frame.pass(op.result(i), callee, *region.results()[i]);
}

void lower_call(Frame& frame, const Operation& op, const Function& function) {
  Frame callee(frame.context, frame.emit, function);
  frame.context.calls.push_back(&op);
  lower_inline(frame, op, callee, *function.body);
  frame.context.calls.pop_back();
}

// Raises unless the body computes with the whole operands and results.
void require_one_device(const Operation& op) {
  const auto is_same = [](const Value* whole, const Value* part) { return *whole->type == *part->type; };
  if (std::ranges::equal(op.operands, op.region().arguments(), is_same) &&
      std::ranges::equal(op.results, op.region().results(), is_same)) {
    return;
  }
  op.fail(MYDEV_INVALID_ARGUMENT, "its body computes with parts of tensors, and there is one device");
}

void pass_on(Frame& frame, const Operation& op) {
  for (size_t i = 0; i < op.results.size(); ++i) frame.pass(op.result(i), frame, op.operand(i));
}

}  // namespace

bool lower_control(Frame& frame, const Operation& op) {
  if (op.row().has(kIdentity) || sharding_call_of(op) != ShardingCall::kNone) {
    require_same_types(op);
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
        for (size_t i = 0; i < op.results.size(); ++i) frame.pass(op.result(i), frame, *op.region().results()[i]);
      } else {
        Branches(op).lower(frame, 0);
      }
      return true;
    case Operator::kCall:
      lower_call(frame, op, frame.context.module.callee(op));
      return true;
    case Operator::kComposite:
      if (!lower_composite(frame, op)) lower_call(frame, op, frame.context.module.callee(op, "decomposition"));
      return true;
    case Operator::kSdyManualComputation:
      require_one_device(op);
      [[fallthrough]];
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
      return lower_move(frame, op) || lower_custom_call(frame, op);
    default:
      return false;
  }
}

}  // namespace mydev::lowering
