// Loops, branches, and manual computations. Shardy's are operations with a region, GSPMD's lie between custom calls.
#include <algorithm>

#include "lowering/sharding/partition/partitioner.h"
#include "runtime/base/status.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

// The sharding that attributes give to an operand or a result of a custom call; errors name the call.
std::optional<Sharding> sharding_of_call(const Module& module, const Operation& op, const Dictionary& attributes,
                                         int64_t devices, size_t rank) {
  try {
    const RaiserBypass bypass;
    return sharding_of(module, attributes, devices, rank);
  } catch (const Error& error) {
    op.fail(error.code(), error.what());
  }
}

// The sharding of the operand of a custom call: its definition or argument says it.
Sharding sharding_of_operand(const Module& module, const Operation& op, int64_t devices) {
  const Value& value = op.operand(0);
  const Function& main = module.main();
  const Dictionary* attributes = value.definition != nullptr ? &value.definition->attributes : nullptr;
  if (attributes == nullptr && value.block == &main.body->body()) attributes = &main.arguments[value.index].attributes;
  std::optional<Sharding> sharding;
  if (attributes != nullptr) sharding = sharding_of_call(module, op, *attributes, devices, value.type->dims.size());
  if (!sharding) {
    op.fail(MYDEV_UNIMPLEMENTED, "what gives its operand has no sharding that says how it is split; 'mhlo.sharding' ",
            "there is what is read");
  }
  return *std::move(sharding);
}

size_t operand_number(const Operation& op, const Value& operand) {
  return static_cast<size_t>(std::ranges::find(op.operands, &operand) - op.operands.begin());
}

// Keeps the cuts of dimensions that Shardy's sharding leaves open.
void keep_open_dimensions(const Operation& op, const Cuts& given, Spread& wanted) {
  const auto* sharding = op.get_if<TensorSharding>("sharding");
  if (sharding == nullptr) return;
  for (size_t d = 0; d < std::min(given.size(), sharding->dimensions.size()); ++d) {
    Cut& cut = wanted.cuts[d];
    if (sharding->dimensions[d].is_closed || !cut.empty()) continue;
    cut = given[d];
    if (!are_independent(wanted)) cut.clear();
  }
}

// Raises for summands of a manual computation within another.
void require_no_summands(const Sharding& sharding, const std::string& what) {
  MYDEV_CHECK(
      sharding.summands().empty(), MYDEV_UNIMPLEMENTED, what,
      " leaves sums to be made (unreduced) in a manual computation within another, which is not supported; sum ",
      "it with lax.psum");
}

void require_shards(const Operation& op, const Sharding& sharding, const Type& whole, const Type& shard) {
  if (sharding.shard_sizes(whole.dims) != shard.dims) {
    op.fail(MYDEV_INVALID_ARGUMENT, "a ", shard.text(), " is no shard of a ", whole.text(), " by its sharding");
  }
}

}  // namespace

void Partitioner::write_loop(const Operation& op, Scope& scope, Block& to) {
  // A value that the loop carries is spread as it comes in. If it comes in whole, it is spread as an iteration gives
  // it. If the two do not agree in the end, it is whole.
  std::vector<Placed> carried = operands_of(op, scope);
  std::vector<bool> is_final(op.operands.size(), false);
  for (bool agrees = false; !agrees;) {
    agrees = true;
    Block& scratch = add_region(nullptr);
    const std::vector<Placed> iteration =
        add_partitioned_region(add(op.op, op, {}, scratch), op.region(1), carried, nullptr, scope);
    for (size_t i = 0; i < iteration.size(); ++i) {
      Spread& spread = carried[i].spread;
      if (iteration[i].spread == spread) continue;
      if (!is_whole(spread)) {
        spread = whole_spread(spread.cuts.size());
      } else if (!is_final[i]) {
        spread = iteration[i].spread;
      } else {
        continue;
      }
      is_final[i] = true;
      agrees = false;
    }
  }
  at_ = &op;
  std::vector<const Value*> operands;
  std::vector<Spread> spreads;
  for (size_t i = 0; i < carried.size(); ++i) {
    const Value& operand = op.operand(i);
    spreads.push_back(carried[i].spread);
    operands.push_back(moved(scope.at(&operand), spreads[i], *operand.type, describe(operand), to).value);
  }
  Operation& loop = add(op.op, op, std::move(operands), to);
  add_partitioned_region(loop, op.region(0), carried, nullptr, scope);
  add_partitioned_region(loop, op.region(1), carried, &spreads, scope);
  for (size_t i = 0; i < carried.size(); ++i) {
    scope[&op.result(i)] = {add_result(loop, shard_type(*op.result(i).type, spreads[i].cuts)), spreads[i]};
  }
}

void Partitioner::write_branches(const Operation& op, Scope& scope, Block& to) {
  // Each result is spread as all branches give it, or whole.
  std::vector<Spread> spreads;
  for (const Region* region : op.regions) {
    Block& scratch = add_region(nullptr);
    const std::vector<Placed> results =
        add_partitioned_region(add(op.op, op, {}, scratch), *region, {}, nullptr, scope);
    for (size_t i = 0; i < results.size(); ++i) {
      if (i == spreads.size()) spreads.push_back(results[i].spread);
      if (spreads[i] != results[i].spread) spreads[i] = whole_spread(spreads[i].cuts.size());
    }
  }
  at_ = &op;
  Operation& branches = add(op.op, op, {scope.at(&op.operand(0)).value}, to);
  for (const Region* region : op.regions) add_partitioned_region(branches, *region, {}, &spreads, scope);
  for (size_t i = 0; i < op.results.size(); ++i) {
    scope[&op.result(i)] = {add_result(branches, shard_type(*op.result(i).type, spreads[i].cuts)), spreads[i]};
  }
}

// --- manual computations ---------------------------------------------------------------------------------------------

ShardingCall sharding_call_of(const Operation& op) {
  if (op.op != Operator::kCustomCall || op.operands.size() != 1 || op.results.size() != 1) return ShardingCall::kNone;
  const std::string& target = op.string("call_target_name");
  if (target == "Sharding") return ShardingCall::kSharding;
  if (target == "SPMDFullToShardShape") return ShardingCall::kFullToShard;
  return target == "SPMDShardToFullShape" ? ShardingCall::kShardToFull : ShardingCall::kNone;
}

std::optional<Spread> Partitioner::wanted_spread(const Operation& op, const Value& operand) const {
  const Type& type = *operand.type;
  const size_t rank = type.dims.size();
  try {
    const RaiserBypass bypass;
    std::optional<Sharding> sharding;
    if (op.op == Operator::kSdyManualComputation) {
      sharding = manual_sharding(op, "in_shardings", operand_number(op, operand), type);
    } else if (const auto* wanted = op.get_if<TensorSharding>("sharding")) {
      sharding.emplace(from_, *wanted, devices_, rank);
    } else if (sharding_call_of(op) == ShardingCall::kSharding) {
      sharding = sharding_of(from_, op.attributes, devices_, rank);
    }
    if (!sharding) return std::nullopt;
    sharding->shard_sizes(type.dims);
    return spread_of(*sharding, rank);
  } catch (const Error&) {
    return std::nullopt;
  }
}

Sharding Partitioner::manual_sharding(const Operation& op, std::string_view attribute, size_t i,
                                      const Type& type) const {
  const std::vector<std::string>& axes = op.get<ManualAxes>("manual_axes").names;
  const size_t rank = type.dims.size();
  if (axes.empty()) return {devices_, rank};
  return {from_, op.get<TensorShardings>(attribute).values.at(i), devices_, rank, axes, manual_axes_};
}

Partitioner::Placed Partitioner::into_manual(const Placed& value, const Sharding& sharding, const Type& whole,
                                             const Type& shard, const std::string& what, Block& to) {
  const size_t rank = whole.dims.size();
  if (!value.is_manual && sharding.is_of_one_tensor()) {
    return {moved(value, spread_of(sharding, rank), whole, what, to).value, whole_spread(rank), true};
  }
  require_no_summands(sharding, what);
  const Value* all = moved(value, whole_spread(rank), whole, what, to).value;
  if (!sharding.is_whole()) all = add_move(*all, Move{std::nullopt, sharding, std::nullopt, &whole, what}, &shard, to);
  return {all, whole_spread(rank), true};
}

Partitioner::Placed Partitioner::out_of_manual(const Placed& shard, const Sharding& sharding, const Type& whole,
                                               std::string what, Block& to) {
  const size_t rank = whole.dims.size();
  if (sharding.is_of_one_tensor()) return {shard.value, spread_of(sharding, rank)};
  require_no_summands(sharding, what);
  if (sharding.is_whole()) return {shard.value, whole_spread(rank), true};
  Move move{sharding, std::nullopt, std::nullopt, &whole, std::move(what)};
  return {add_move(*shard.value, std::move(move), &whole, to), whole_spread(rank), true};
}

void Partitioner::write_manual_computation(const Operation& op, Scope& scope, Block& to) {
  const std::vector<std::string>& axes = op.get<ManualAxes>("manual_axes").names;
  const Region& region = op.region();
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Value &operand = op.operand(i), &argument = *region.arguments()[i];
    const Sharding in = manual_sharding(op, "in_shardings", i, *operand.type);
    require_shards(op, in, *operand.type, *argument.type);
    scope[&argument] = into_manual(scope.at(&operand), in, *operand.type, *argument.type, describe(operand), to);
  }
  manual_axes_.insert(manual_axes_.end(), axes.begin(), axes.end());
  ++manual_depth_;
  write_block(region.body(), scope, to);
  --manual_depth_;
  manual_axes_.resize(manual_axes_.size() - axes.size());
  at_ = &op;
  for (size_t i = 0; i < op.results.size(); ++i) {
    const Value &result = op.result(i), &shard = *region.results()[i];
    const Sharding out = manual_sharding(op, "out_shardings", i, *result.type);
    require_shards(op, out, *result.type, *shard.type);
    scope[&result] = out_of_manual(scope.at(&shard), out, *result.type, describe(result), to);
  }
}

void Partitioner::write_sharding_call(const Operation& op, ShardingCall call, Scope& scope, Block& to) {
  const Value &operand = op.operand(0), &result = op.result();
  const Placed value = scope.at(&operand);
  if (call == ShardingCall::kShardToFull) {
    const std::optional<Sharding> sharding =
        sharding_of_call(from_, op, op.attributes, devices_, result.type->dims.size());
    if (!sharding) op.fail(MYDEV_UNIMPLEMENTED, "it has no sharding to gather by");
    require_shards(op, *sharding, *result.type, *operand.type);
    scope[&result] = out_of_manual(value, *sharding, *result.type, describe(result), to);
  } else if (call == ShardingCall::kFullToShard) {
    const Sharding sharding = sharding_of_operand(from_, op, devices_);
    require_shards(op, sharding, *operand.type, *result.type);
    scope[&result] = into_manual(value, sharding, *operand.type, *result.type, describe(operand), to);
  } else {
    std::optional<Spread> wanted = value.is_manual ? std::nullopt : wanted_spread(op, operand);
    if (wanted) keep_open_dimensions(op, value.spread.cuts, *wanted);
    scope[&result] = wanted ? moved(value, *wanted, *operand.type, describe(operand), to) : value;
  }
}

}  // namespace mydev::lowering
