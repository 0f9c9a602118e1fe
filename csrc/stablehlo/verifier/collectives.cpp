// Collectives. The lowering knows how many devices a group has, and checks what depends on that.
#include <string>

#include "stablehlo/verifier/checks.h"
#include "stablehlo/verifier/rules.h"

namespace mydev::stablehlo::verifier {

namespace {

void require_table(const Operation& op, std::string_view name) {
  const Type& type = *op.literal(name).type;
  require(op, type.rank() == 2 && is_integer(type.element), "'", name, "' is a ", type.text(),
          ", expected a table of device numbers");
}

// Results have the operands' types, except for sizes along the dimensions that an attribute names.
void require_like_operands(const Operation& op, std::initializer_list<std::string_view> changed) {
  require_table(op, "replica_groups");
  require(op, op.results.size() == op.operands.size() && !op.results.empty(), "it has ", op.operands.size(),
          " operands and ", op.results.size(), " results");
  for (size_t i = 0; i < op.results.size(); ++i) {
    const Type& from = operand(op, i);
    Numbers sizes = from.dims;
    for (const std::string_view name : changed) {
      const int64_t d = op.integer(name);
      require_dimension(op, name, d, from.rank());
      if (result(op, i).rank() == from.rank())
        sizes[static_cast<size_t>(d)] = result(op, i).dims[static_cast<size_t>(d)];
    }
    require_result(op, from.element, sizes, i);
  }
}

void all_gather(const Operation& op) {
  require_like_operands(op, {"all_gather_dim"});
}
void all_reduce(const Operation& op) {
  require_like_operands(op, {});
}
void reduce_scatter(const Operation& op) {
  require_like_operands(op, {"scatter_dimension"});
}
void all_to_all(const Operation& op) {
  require(op, op.integer("split_count") > 0, "'split_count' is ", op.integer("split_count"), ", expected at least 1");
  require_like_operands(op, {"split_dimension", "concat_dimension"});
}
void collective_permute(const Operation& op) {
  require_table(op, "source_target_pairs");
  require(op, op.literal("source_target_pairs").type->dims.back() == 2 || op.integers("source_target_pairs").empty(),
          "'source_target_pairs' is a ", op.literal("source_target_pairs").type->text(), ", expected pairs");
}
void collective_broadcast(const Operation& op) {
  require_table(op, "replica_groups");
}

constexpr RuleRow kCollectiveRules[] = {
    {Operator::kAllGather, all_gather},
    {Operator::kAllReduce, all_reduce},
    {Operator::kReduceScatter, reduce_scatter},
    {Operator::kAllToAll, all_to_all},
    {Operator::kCollectivePermute, collective_permute},
    {Operator::kCollectiveBroadcast, collective_broadcast},
};

}  // namespace

std::span<const RuleRow> collective_rules() noexcept {
  return kCollectiveRules;
}

}  // namespace mydev::stablehlo::verifier
