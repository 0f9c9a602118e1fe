#include "lowering/loops/body_text.h"

#include <cmath>
#include <sstream>

#include "stablehlo/evaluator/number.h"
#include "stablehlo/evaluator/scalar_operation.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

constexpr size_t kLong = 1000;

const char* direction_name(ComparisonDirection direction) noexcept {
  switch (direction) {
    case ComparisonDirection::kEq:
      return "EQ";
    case ComparisonDirection::kNe:
      return "NE";
    case ComparisonDirection::kGe:
      return "GE";
    case ComparisonDirection::kGt:
      return "GT";
    case ComparisonDirection::kLe:
      return "LE";
    default:
      return "LT";
  }
}

std::string constant_text(const Operation& op) {
  const ElementType type = op.result().type->element;
  const Number number = load(type, op.literal("value").bytes.data());
  switch (element_row(type).kind) {
    case ElementKind::kComplex:
      return "";
    case ElementKind::kFloat: {
      if (std::isnan(number.real)) return "nan";
      std::ostringstream text;
      text << number.real;
      return text.str();
    }
    default:
      return std::to_string(number.integer);
  }
}

std::string operator_text(const Operation& op) {
  std::string text(op.name().substr(op.name().find('.') + 1));
  if (op.op != Operator::kCompare) return text;
  const auto* type = op.get_if<ComparisonType>("compare_type");
  text += std::string("_") + direction_name(op.get<ComparisonDirection>("comparison_direction"));
  return type != nullptr && *type == ComparisonType::kTotalOrder ? text + "_TOTALORDER" : text;
}

std::string value_text(const Block& body, const Value& value) {
  const Operation* op = value.definition;
  if (op == nullptr) return value.block == &body ? "a" + std::to_string(value.index) : "";
  if (!value.type->is_tensor() || value.type->rank() != 0) return "";
  if (op->op == Operator::kConstant) return constant_text(*op);
  if (!is_elementwise(*op) || op->op == Operator::kReducePrecision) return "";
  std::string text = operator_text(*op);
  char separator = '(';
  for (const Value* operand : op->operands) {
    const std::string part = value_text(body, *operand);
    if (part.empty() || text.size() + part.size() > kLong) return "";
    text += separator + part;
    separator = ',';
  }
  return text + ")";
}

}  // namespace

std::string body_text(const Region& region, size_t result) {
  return body_text(region, *region.results()[result]);
}

std::string body_text(const Region& region, const Value& value) {
  return value_text(region.body(), value);
}

}  // namespace mydev::lowering
