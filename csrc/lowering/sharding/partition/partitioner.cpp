#include "lowering/sharding/partition/partitioner.h"

#include <algorithm>
#include <numeric>

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

bool is_collective(Operator op) noexcept {
  switch (op) {
    case Operator::kAllGather:
    case Operator::kAllReduce:
    case Operator::kAllToAll:
    case Operator::kCollectiveBroadcast:
    case Operator::kCollectivePermute:
    case Operator::kCrossReplicaSum:
    case Operator::kPartitionId:
    case Operator::kReduceScatter:
      return true;
    default:
      return false;
  }
}

// Whether the condition holds for an operation of the regions; those of manual computations are not looked at.
template <typename Condition>
bool any_operation(std::span<const Region* const> regions, const Condition& condition) {
  for (const Region* region : regions) {
    for (const Operation* op : region->body().operations) {
      if (condition(*op)) return true;
      if (op->op != Operator::kSdyManualComputation && any_operation(op->regions, condition)) return true;
    }
  }
  return false;
}

// Whether the value is of a region of the operation.
bool is_inside(const Value& value, const Operation& op) noexcept {
  for (const Operation* owner = value.block->region->owner; owner != nullptr; owner = owner->block->region->owner) {
    if (owner == &op) return true;
  }
  return false;
}

bool is_about_shardings(const Operation& op) noexcept {
  return op.name().starts_with("sdy.") || sharding_call_of(op) != ShardingCall::kNone;
}
bool is_about_shardings(const NamedAttribute& attribute) noexcept {
  return attribute.name.starts_with("sdy.") || attribute.name == "mhlo.sharding";
}

}  // namespace

Dictionary without_shardings(Dictionary attributes) {
  std::erase_if(attributes, [](const NamedAttribute& attribute) { return is_about_shardings(attribute); });
  return attributes;
}

bool has_shardings(const Module& module, int64_t devices) {
  const Function& main = module.main();
  for (const FunctionArgument& argument : main.arguments) {
    if (sharding_of(module, argument.attributes, devices, argument.value->type->dims.size())) return true;
  }
  for (const FunctionResult& result : main.results) {
    if (sharding_of(module, result.attributes, devices, result.type->dims.size())) return true;
  }
  return std::ranges::any_of(module.functions(), [](const Function* function) {
    const Region* const body = function->body;
    return any_operation(std::span(&body, 1), [](const Operation& op) { return is_about_shardings(op); });
  });
}

std::string describe(const Value& value) {
  if (value.definition == nullptr) return "argument " + std::to_string(value.index);
  return "result " + std::to_string(value.index) + " of " + value.definition->describe();
}

Partition partition(const Module& module, int64_t devices) {
  return Partitioner(module, devices).run();
}

Partitioner::Partitioner(const Module& from, int64_t devices) : from_(from), devices_(devices) {
  for (const Function* function : from.functions()) note_users(*function->body);
}

void Partitioner::note_users(const Region& region) {
  for (const Operation* op : region.body().operations) {
    for (const Value* operand : op->operands) {
      const Operation*& user = only_users_.emplace(operand, op).first->second;
      if (user != op) user = nullptr;
    }
    for (const Region* inner : op->regions) note_users(*inner);
  }
}

Partition Partitioner::run() {
  Module::Contents& contents = result_.module.contents();
  const Function& main = from_.main();
  contents.name = from_.name();
  contents.attributes = without_shardings(from_.attributes());
  main_ = &contents.functions.emplace_back();
  main_->locations = main.locations;
  main_->name = main.name;
  main_->attributes = main.attributes;
  main_->location = main.location;
  contents.function_order.push_back(main_);
  contents.functions_by_name[main_->name] = main_;

  Block& block = add_region(nullptr);
  main_->body = block.region;
  Scope scope;
  for (const FunctionArgument& argument : main.arguments) {
    const Type& type = *argument.value->type;
    std::optional<Sharding> given = sharding_of(from_, argument.attributes, devices_, type.dims.size());
    if (given) given->shard_sizes(type.dims);  // raises where it has no equal shards
    Spread spread = given ? spread_of(*given, type.dims.size()) : Spread{cuts_of_only_user(*argument.value)};
    result_.parameters.push_back(given ? *std::move(given) : sharding_of(spread, devices_));
    block.arguments.push_back(add_value(shard_type(type, spread.cuts), block, nullptr, block.arguments.size()));
    main_->arguments.push_back({block.arguments.back(), without_shardings(argument.attributes)});
    scope[argument.value] = {block.arguments.back(), std::move(spread)};
  }
  write_block(main.body->body(), scope, block);
  at_ = &main.body->body().terminator();
  std::vector<const Value*> values;
  for (size_t i = 0; i < main.results.size(); ++i) {
    const Value& value = *main.body->results()[i];
    const size_t rank = value.type->dims.size();
    Placed placed = scope.at(&value);
    std::optional<Sharding> wanted = sharding_of(from_, main.results[i].attributes, devices_, rank);
    // JAX, which asks how results are split, has attributes on each; PyTorch/XLA, which does not ask, has none.
    if (!wanted && main.results[i].attributes.empty()) wanted = Sharding(devices_, rank);
    if (wanted) wanted->shard_sizes(value.type->dims);
    const Spread spread = wanted ? spread_of(*wanted, rank) : Spread{placed.spread.cuts};
    placed = moved(placed, spread, *value.type, describe(value), block);
    result_.results.push_back(wanted ? *std::move(wanted) : sharding_of(spread, devices_));
    main_->results.push_back({placed.value->type, without_shardings(main.results[i].attributes)});
    values.push_back(placed.value);
  }
  add_return(*main.body, std::move(values), block);
  return std::move(result_);
}

// The cuts that the one operation that takes an argument asks for; whole, if no operation asks.
Cuts Partitioner::cuts_of_only_user(const Value& argument) const {
  const auto found = only_users_.find(&argument);
  const Operation* user = found != only_users_.end() ? found->second : nullptr;
  std::optional<Spread> wanted = user != nullptr ? wanted_spread(*user, argument) : std::nullopt;
  return wanted ? std::move(wanted->cuts) : Cuts(argument.type->dims.size());
}

void Partitioner::write_block(const Block& block, Scope& scope, Block& to) {
  for (const Operation* op : block.operations) {
    if (op != &block.terminator()) write(*op, scope, to);
  }
}

void Partitioner::write(const Operation& op, Scope& scope, Block& to) {
  at_ = &op;
  Scope inner;
  switch (op.op) {
    case Operator::kCall:
      return write_inline(op, *from_.callee(op).body, scope, inner, to);
    case Operator::kComposite:
      return write_inline(op, *from_.callee(op, "decomposition").body, scope, inner, to);
    case Operator::kSdyNamedComputation:
      return write_inline(op, op.region(), scope, scope, to);
    case Operator::kSdyManualComputation:
      return write_manual_computation(op, scope, to);
    case Operator::kSdyShardingGroup:
      return;
    default:
      break;
  }
  const ShardingCall call = sharding_call_of(op);
  if (call != ShardingCall::kNone || op.row().has(kIdentity)) return write_sharding_call(op, call, scope, to);
  if (manual_depth_ > 0 || is_manual(op, scope)) return write_as_it_is(op, scope, to);
  switch (op.op) {
    case Operator::kWhile:
      return write_loop(op, scope, to);
    case Operator::kIf:
    case Operator::kCase:
      return write_branches(op, scope, to);
    case Operator::kOptimizationBarrier:
      for (size_t i = 0; i < op.operands.size(); ++i) scope[&op.result(i)] = scope.at(&op.operand(i));
      return;
    default:
      return write_in_parts(op, scope, to);
  }
}

void Partitioner::write_inline(const Operation& op, const Region& region, Scope& outer, Scope& inner, Block& to) {
  for (size_t i = 0; i < op.operands.size(); ++i) inner[region.arguments()[i]] = outer.at(&op.operand(i));
  write_block(region.body(), inner, to);
  for (size_t i = 0; i < op.results.size(); ++i) outer[&op.result(i)] = inner.at(region.results()[i]);
}

std::vector<Partitioner::Placed> Partitioner::operands_of(const Operation& op, const Scope& scope) {
  std::vector<Placed> operands(op.operands.size());
  for (size_t i = 0; i < operands.size(); ++i) operands[i] = scope.at(&op.operand(i));
  return operands;
}

bool Partitioner::is_manual(const Operation& op, const Scope& scope) const {
  const auto takes_manual = [&](const Operation& user) {
    return std::ranges::any_of(
        user.operands, [&](const Value* operand) { return !is_inside(*operand, op) && scope.at(operand).is_manual; });
  };
  if (is_collective(op.op) || takes_manual(op)) return true;
  const bool begins_one =
      any_operation(op.regions, [](const Operation& of) { return sharding_call_of(of) == ShardingCall::kFullToShard; });
  const auto is_of_one = [&](const Operation& of) { return is_collective(of.op) || takes_manual(of); };
  return !begins_one && any_operation(op.regions, is_of_one);
}

void Partitioner::write_as_it_is(const Operation& op, Scope& scope, Block& to) {
  std::vector<const Value*> operands;
  for (const Value* operand : op.operands) {
    const Spread whole = whole_spread(operand->type->dims.size());
    operands.push_back(moved(scope.at(operand), whole, *operand->type, describe(*operand), to).value);
  }
  Operation& written = add(op.op, op, std::move(operands), to);
  for (const Value* result : op.results) {
    scope[result] = {add_result(written, result->type), whole_spread(result->type->dims.size()), true};
  }
  ++manual_depth_;
  for (const Region* region : op.regions) {
    std::vector<Placed> arguments;
    for (const Value* argument : region->arguments()) {
      arguments.push_back({nullptr, whole_spread(argument->type->dims.size()), true});
    }
    add_partitioned_region(written, *region, arguments, nullptr, scope);
  }
  --manual_depth_;
}

std::vector<Cut> Partitioner::cuts_of_factors(const Rule& rule, const Operation& op,
                                              const std::vector<Placed>& operands, const Cut& summands) const {
  Spread all{Cuts(rule.summed.size()), summands};
  std::vector<Cut>& cuts = all.cuts;
  const auto divides = [](int64_t parts, int factor, std::span<const Value* const> values,
                          const std::vector<std::vector<int>>& factors) {
    for (size_t i = 0; i < values.size(); ++i) {
      for (size_t d = 0; d < factors[i].size(); ++d) {
        if (factors[i][d] == factor && values[i]->type->dims[d] % parts != 0) return false;
      }
    }
    return true;
  };
  std::vector<size_t> by_size(op.operands.size());  // the largest first
  std::iota(by_size.begin(), by_size.end(), 0);
  std::ranges::stable_sort(by_size, std::greater(), [&op](size_t i) { return op.operand(i).type->bytes(); });
  for (const size_t i : by_size) {
    for (size_t d = 0; d < rule.operands[i].size(); ++d) {
      const int factor = rule.operands[i][d];
      const Cut& given = operands[i].spread.cuts[d];
      if (factor == Rule::kWhole || given.empty() || !cuts[static_cast<size_t>(factor)].empty()) continue;
      const int64_t parts = parts_of(given);
      if (!divides(parts, factor, op.operands, rule.operands) || !divides(parts, factor, op.results, rule.results)) {
        continue;
      }
      Cut& cut = cuts[static_cast<size_t>(factor)];
      cut = given;
      if (!are_independent(all)) cut.clear();
    }
  }
  return std::move(cuts);
}

void Partitioner::write_in_parts(const Operation& op, Scope& scope, Block& to) {
  const std::vector<Placed> operands = operands_of(op, scope);
  const Rule rule = rule_of(from_, op);
  const Cut summands = summands_through(op, operands);
  const std::vector<Cut> cuts = cuts_of_factors(rule, op, operands, summands);
  const auto cuts_by = [&cuts](const std::vector<int>& factors) {
    Cuts of(factors.size());
    for (size_t d = 0; d < factors.size(); ++d) {
      if (factors[d] != Rule::kWhole) of[d] = cuts[static_cast<size_t>(factors[d])];
    }
    return of;
  };
  std::vector<const Value*> values;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Value& operand = op.operand(i);
    Spread spread{cuts_by(rule.operands[i])};
    if (!operands[i].spread.summands.empty()) spread.summands = summands;
    values.push_back(moved(operands[i], spread, *operand.type, describe(operand), to).value);
  }
  Operation& written = add(op.op, op, std::move(values), to);
  if (!rule.sizes_attribute.empty()) {
    Sizes sizes = op.integers(rule.sizes_attribute);
    const Cuts of = cuts_by(rule.operands[0]);
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] == op.operand(0).type->dims[d]) sizes[d] /= parts_of(of[d]);
    }
    std::ranges::find(written.attributes, rule.sizes_attribute, &NamedAttribute::name)->value =
        integers(sizes, {static_cast<int64_t>(sizes.size())});
  }
  for (size_t i = 0; i < op.results.size(); ++i) {
    const Value& result = op.result(i);
    Cuts of = cuts_by(rule.results[i]);
    const Value* value = add_result(written, shard_type(*result.type, of));
    scope[&result] = {value, {std::move(of), summands}};
  }
  ++manual_depth_;
  for (const Region* region : op.regions) {
    std::vector<Placed> arguments;
    for (const Value* argument : region->arguments()) {
      arguments.push_back({nullptr, whole_spread(argument->type->dims.size())});
    }
    add_partitioned_region(written, *region, arguments, nullptr, scope);
  }
  --manual_depth_;
  at_ = &op;
  if (op.results.size() != 1) return;
  Placed& result = scope.at(&op.result());
  result = summed(op, rule, cuts, std::move(result), to);
}

}  // namespace mydev::lowering
