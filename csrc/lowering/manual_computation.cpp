// Manual computations, whose bodies each device runs on its parts of tensors: Shardy's, which are operations with a
// region, and GSPMD's, which lie between custom calls.
#include <algorithm>

#include "lowering/frame.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

// Whether the function that is run does nothing with the value but return it.
bool is_returned(Context& context, const Value& value) {
  const Operation* user = context.only_user(value);
  return user != nullptr && user->op == Operator::kReturn && user->block == &context.module.main().body->body();
}

// What attributes say about an operand or a result of a custom call; errors name the call.
std::optional<Sharding> sharding_of_call(const Context& context, const Operation& op, const Dictionary& attributes,
                                         size_t rank) {
  try {
    const RaiserBypass bypass;
    return sharding_of(context.module, attributes, context.placement.devices(), rank);
  } catch (const Error& error) {
    op.fail(error.code(), error.what());
  }
}

// The shardings that an attribute of a manual computation of Shardy's lists, over its manual axes.
std::vector<Sharding> shardings_of(const Context& context, const Operation& op, std::string_view name,
                                   std::span<const Value* const> values) {
  const int64_t devices = context.placement.devices();
  const auto& listed = op.get<TensorShardings>(name).values;
  const std::vector<std::string>& axes = op.get<ManualAxes>("manual_axes").names;
  std::vector<Sharding> shardings;
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t rank = values[i]->type->dims.size();
    if (devices == 1 || axes.empty()) {
      shardings.emplace_back(devices, rank);
    } else {
      shardings.emplace_back(context.module, listed.at(i), devices, rank, axes, context.manual_axes);
    }
  }
  return shardings;
}

// How the operand of a custom call is split: as what gives it says.
Sharding sharding_of_operand(const Context& context, const Operation& op) {
  const Value& value = op.operand(0);
  const Function& main = context.module.main();
  const Dictionary* attributes = value.definition != nullptr ? &value.definition->attributes : nullptr;
  if (attributes == nullptr && value.block == &main.body->body()) attributes = &main.arguments[value.index].attributes;
  std::optional<Sharding> sharding;
  if (attributes != nullptr) sharding = sharding_of_call(context, op, *attributes, value.type->dims.size());
  if (!sharding) {
    op.fail(MYDEV_UNIMPLEMENTED, "what gives its operand has no sharding that says how it is split; 'mhlo.sharding' ",
            "there is what is read");
  }
  return *std::move(sharding);
}

void require_parts(const Operation& op, const Sharding& sharding, const Type& whole, const Type& part) {
  if (sharding.part_sizes(whole.dims) != part.dims) {
    op.fail(MYDEV_INVALID_ARGUMENT, "a ", part.text(), " is no part of a ", whole.text(), " by its sharding");
  }
}

// The result of a manual computation: in parts where the program does nothing but return it.
void set_whole(Frame& frame, const Value& value, const Tensor& part, const Sharding& sharding) {
  if (is_returned(frame.context, value) && !sharding.is_whole()) {
    frame.context.parts.emplace(&value, sharding);
    frame.set(value, part);
  } else {
    frame.set(value, gathered(frame, part, sharding, *value.type, describe(value)));
  }
}

}  // namespace

std::string describe(const Value& value) {
  if (value.definition == nullptr) return "argument " + std::to_string(value.index);
  return "result " + std::to_string(value.index) + " of " + value.definition->describe();
}

bool lower_manual_computation(Frame& frame, const Operation& op) {
  Context& context = frame.context;
  const Region& region = op.region();
  const std::vector<Sharding> in = shardings_of(context, op, "in_shardings", op.operands);
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Value& value = op.operand(i);
    if (!value.type->is_tensor()) continue;
    const bool is_part = context.parts.contains(&value);  // and then of this sharding
    frame.set(*region.arguments()[i], is_part ? frame[value] : part_of(frame, frame[value], in[i]));
  }
  const std::vector<std::string>& axes = op.get<ManualAxes>("manual_axes").names;
  context.manual_axes.insert(context.manual_axes.end(), axes.begin(), axes.end());
  lower_block(frame, region.body());
  context.manual_axes.resize(context.manual_axes.size() - axes.size());
  const std::vector<Sharding> out = shardings_of(context, op, "out_shardings", op.results);
  for (size_t i = 0; i < op.results.size(); ++i) {
    const Value& value = op.result(i);
    if (value.type->is_tensor()) set_whole(frame, value, frame[*region.results()[i]], out[i]);
  }
  return true;
}

ShardingCall sharding_call_of(const Operation& op) {
  if (op.op != Operator::kCustomCall || op.operands.size() != 1 || op.results.size() != 1) return ShardingCall::kNone;
  const std::string& target = op.string("call_target_name");
  if (target == "Sharding") return ShardingCall::kSharding;
  if (target == "SPMDFullToShardShape") return ShardingCall::kFullToShard;
  return target == "SPMDShardToFullShape" ? ShardingCall::kShardToFull : ShardingCall::kNone;
}

void lower_sharding_call(Frame& frame, const Operation& op, ShardingCall call) {
  Context& context = frame.context;
  const Value &value = op.operand(0), &result = op.result();
  const auto part = context.parts.find(&value);
  const bool is_part = part != context.parts.end();
  if (call == ShardingCall::kShardToFull) {
    const std::optional<Sharding> sharding = sharding_of_call(context, op, op.attributes, result.type->dims.size());
    if (!sharding && context.placement.devices() > 1) op.fail(MYDEV_UNIMPLEMENTED, "it has no sharding to gather by");
    if (!sharding) return frame.set(result, frame[value]);
    require_parts(op, *sharding, *result.type, *value.type);
    return set_whole(frame, result, frame[value], *sharding);
  }
  if (call == ShardingCall::kFullToShard && context.placement.devices() > 1) {
    const Sharding sharding = sharding_of_operand(context, op);
    require_parts(op, sharding, *value.type, *result.type);
    return frame.set(result, is_part ? frame[value] : part_of(frame, frame[value], sharding));
  }
  if (is_part) context.parts.emplace(&result, part->second);
  frame.set(result, frame[value]);
}

std::optional<Sharding> sharding_of_user(Context& context, const Value& value) {
  const Operation* user = context.only_user(value);
  if (user == nullptr || context.placement.devices() == 1) return std::nullopt;
  if (user->op == Operator::kSdyManualComputation) {
    const std::vector<Sharding> shardings = shardings_of(context, *user, "in_shardings", user->operands);
    return shardings.at(static_cast<size_t>(std::ranges::find(user->operands, &value) - user->operands.begin()));
  }
  if (sharding_call_of(*user) != ShardingCall::kSharding) return std::nullopt;
  const Operation* next = context.only_user(user->result());
  if (next == nullptr || sharding_call_of(*next) != ShardingCall::kFullToShard) return std::nullopt;
  return sharding_of_operand(context, *next);
}

}  // namespace mydev::lowering
