// Tensors that are sums of what the devices have: the operations that take summands as they are, and the sums that are
// made.
#include <algorithm>

#include "lowering/sharding/partition/partitioner.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

// Whether the operation says how its operand is spread.
bool is_constraint(const Operation& op) {
  return op.op == Operator::kSdyShardingConstraint || op.op == Operator::kSdyReshard ||
         sharding_call_of(op) == ShardingCall::kSharding;
}

bool is_unary(const Operation& op) {
  return op.op == Operator::kConvert || op.op == Operator::kNegate || op.op == Operator::kReshape ||
         op.op == Operator::kTranspose;
}

}  // namespace

Cut Partitioner::summands_through(const Operation& op, const std::vector<Placed>& operands) const {
  std::vector<bool> in_summands;
  Cut summands;
  for (const Placed& operand : operands) {
    const Cut& given = operand.spread.summands;
    in_summands.push_back(!given.empty());
    if (given.empty()) continue;
    if (!summands.empty() && summands != given) return {};
    summands = given;
  }
  return !summands.empty() && is_linear(from_, op, in_summands) ? summands : Cut();
}

bool Partitioner::are_sums_left(const Value& value) const {
  for (const Value* at = &value;;) {
    const auto found = only_users_.find(at);
    const Operation* user = found != only_users_.end() ? found->second : nullptr;
    if (user == nullptr || user->block != at->block) return false;
    if (at == &value && (is_constraint(*user) || user == &from_.main().body->body().terminator())) return true;
    if (is_constraint(*user)) {
      const std::optional<Spread> wanted = wanted_spread(*user, *at);
      return wanted && !wanted->summands.empty();
    }
    if (!is_unary(*user)) return false;
    at = &user->result();
  }
}

Partitioner::Placed Partitioner::summed(const Operation& op, const Rule& rule, const std::vector<Cut>& cuts,
                                        Placed shard, Block& to) {
  std::vector<Cut> sums, others;
  for (size_t factor = 0; factor < cuts.size(); ++factor) (rule.summed[factor] ? sums : others).push_back(cuts[factor]);
  if (is_whole(sums)) return shard;
  if (rule.combination != nullptr && !adds(from_, *rule.combination)) {
    const Groups groups = groups_over(sums, others, devices_);
    shard.value = add_reduction(*shard.value, groups, rule.combination, std::nullopt, to);
    return shard;
  }
  const Cut before = shard.spread.summands;
  sums.push_back(before);
  shard.spread.summands = summands_of(sums, devices_);
  return are_sums_left(op.result()) ? shard : reduced(std::move(shard), before, {}, to);
}

Partitioner::Placed Partitioner::reduced(Placed shard, const Cut& left, const Cuts& wanted, Block& to) {
  if (shard.spread.summands == left) return shard;
  Cuts& cuts = shard.spread.cuts;
  Cuts others = cuts;
  others.push_back(left);
  Groups groups = groups_over({&shard.spread.summands, 1}, others, devices_);
  shard.spread.summands = left;
  for (size_t d = 0; d < wanted.size(); ++d) {
    std::optional<Scatter> parts = scatter(groups, cuts[d], wanted[d]);
    if (!parts) continue;
    cuts[d] = wanted[d];
    shard.value = add_reduction(*shard.value, parts->groups, nullptr, d, to);
    groups = std::move(parts->left);
  }
  if (groups.front().size() > 1) {
    shard.value = add_reduction(*shard.value, groups, nullptr, std::nullopt, to);
  }
  return shard;
}

const Value* Partitioner::add_reduction(const Value& value, const Groups& groups, const Region* combination,
                                        std::optional<size_t> scattered, Block& to) {
  Operation& reduction = add(scattered ? Operator::kReduceScatter : Operator::kAllReduce, *at_, {&value}, to);
  Sizes ids;
  for (const std::vector<int64_t>& group : groups) ids.insert(ids.end(), group.begin(), group.end());
  Module::Contents& contents = result_.module.contents();
  const Sizes sizes = {static_cast<int64_t>(groups.size()), static_cast<int64_t>(groups.front().size())};
  const Type* number = contents.add(Type{TypeKind::kElement, ElementType::kS64});
  const auto integer = [&](int64_t value) { return contents.add(Attribute{Integer{value, number}}); };
  reduction.attributes = {{"channel_id", integer(1)}, {"replica_groups", integers(ids, sizes)}};
  Type type = *value.type;
  if (scattered) {
    reduction.attributes.push_back({"scatter_dimension", integer(static_cast<int64_t>(*scattered))});
    type.dims[*scattered] /= static_cast<int64_t>(groups.front().size());
  }
  reduction.attributes.push_back({"use_global_device_ids", contents.add(Attribute{true})});
  const Value* result = add_result(reduction, contents.add(std::move(type)));
  if (combination != nullptr) {
    Scope scope;
    const std::vector<Placed> arguments(2);
    ++manual_depth_;
    add_partitioned_region(reduction, *combination, arguments, nullptr, scope);
    --manual_depth_;
    return result;
  }
  Block& block = add_region(&reduction);
  reduction.regions.push_back(block.region);
  const Type* scalar = contents.add(Type{TypeKind::kTensor, value.type->element});
  for (size_t i = 0; i < 2; ++i) block.arguments.push_back(add_value(scalar, block, nullptr, i));
  Operation& sum = add(Operator::kAdd, *at_, block.arguments, block);
  sum.attributes.clear();
  add_result(sum, scalar);
  add(Operator::kReturn, *at_, sum.results, block).attributes.clear();
  return result;
}

}  // namespace mydev::lowering
