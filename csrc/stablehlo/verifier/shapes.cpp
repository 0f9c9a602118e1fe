#include "stablehlo/verifier/shapes.h"

#include <array>

#include "stablehlo/verifier/rules.h"
#include "stablehlo/verifier/shape_operands.h"

namespace mydev::stablehlo {

void verify_shapes(const Operation& op) {
  // By operator; nullptr: there is none.
  static const auto kRules = [] {
    std::array<decltype(verifier::RuleRow::rule), std::size_t{1} << 8> rules{};
    for (const std::span<const verifier::RuleRow> rows :
         {verifier::movement_rules(), verifier::element_rules(), verifier::reduction_rules(),
          verifier::indexing_rules(), verifier::product_rules(), verifier::algebra_rules(),
          verifier::collective_rules()}) {
      for (const verifier::RuleRow& row : rows) rules[static_cast<size_t>(row.op)] = row.rule;
    }
    return rules;
  }();
  verify_shape_operands(op);
  if (const auto rule = kRules[static_cast<size_t>(op.op)]) rule(op);
}

}  // namespace mydev::stablehlo
