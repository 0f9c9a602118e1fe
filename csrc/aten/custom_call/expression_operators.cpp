#include "aten/custom_call/expression_operators.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <string_view>

#include "aten/core/dtype.h"
#include "runtime/base/status.h"

namespace mydev {

namespace {

using at::Tensor;

struct OperatorRow {
  std::string_view function;
  Tensor (*compute)(const Tensor* x);
};

Tensor cube_root(const Tensor& x) {
  return x.sign() * x.abs().pow(1.0 / 3.0);
}

#define ROW(function, value) {function, [](const Tensor* x) -> Tensor { return value; }}
#define FUNCTION(name) ROW(#name, x[0].name())
// Comparisons and logic give booleans, which arithmetic takes for 0 and 1.
constexpr OperatorRow kOperators[] = {
    ROW("+", x[0].add(x[1])),
    ROW("-", x[0].sub(x[1])),
    ROW("*", x[0].mul(x[1])),
    ROW("/", x[0].div(x[1])),
    ROW("==", x[0].eq(x[1])),
    ROW("!=", x[0].ne(x[1])),
    ROW("<", x[0].lt(x[1])),
    ROW("<=", x[0].le(x[1])),
    ROW(">", x[0].gt(x[1])),
    ROW(">=", x[0].ge(x[1])),
    ROW("and", x[0].logical_and(x[1])),
    ROW("or", x[0].logical_or(x[1])),
    ROW("not", x[0].logical_not()),
    ROW("where", at::where(x[0].ne(0), x[1], x[2])),
    // clang-format off
    FUNCTION(neg), FUNCTION(exp), FUNCTION(exp2), FUNCTION(expm1), FUNCTION(log), FUNCTION(log2), FUNCTION(log10),
    FUNCTION(log1p), FUNCTION(sin), FUNCTION(cos), FUNCTION(tan), FUNCTION(asin), FUNCTION(acos), FUNCTION(atan),
    FUNCTION(sinh), FUNCTION(cosh), FUNCTION(tanh), FUNCTION(asinh), FUNCTION(acosh), FUNCTION(atanh), FUNCTION(erf),
    FUNCTION(erfc), FUNCTION(sqrt), FUNCTION(floor), FUNCTION(ceil), FUNCTION(round), FUNCTION(trunc), FUNCTION(abs),
    FUNCTION(sign), FUNCTION(isnan), FUNCTION(isinf),
    // clang-format on
    ROW("cbrt", cube_root(x[0])),
    ROW("pow", x[0].pow(x[1])),
    ROW("atan2", x[0].atan2(x[1])),
    ROW("max", at::maximum(x[0], x[1])),
    ROW("min", at::minimum(x[0], x[1])),
    ROW("trunc_div", x[0].div(x[1], "trunc")),
    ROW("fmod", x[0].fmod(x[1])),
    ROW("floor_div", x[0].div(x[1], "floor")),
    ROW("remainder", x[0].remainder(x[1])),
};
#undef FUNCTION
#undef ROW

const OperatorRow* find_operator(std::string_view function) {
  for (const OperatorRow& row : kOperators) {
    if (row.function == function) return &row;
  }
  return nullptr;
}

class ExpressionCall {
 public:
  ExpressionCall(const KernelContract& contract, c10::ArrayRef<Tensor> operands, c10::ArrayRef<c10::IValue> attributes)
      : contract_(contract), operands_(operands), attributes_(attributes) {
    for (const Tensor& operand : operands) {
      if (operand.defined()) dtype_ = widened(operand.scalar_type());
      if (operand.defined()) break;
    }
  }

  std::vector<Tensor> results() const {
    std::vector<Tensor> nodes;
    for (const Expression::Node& node : contract_.expression.nodes()) nodes.push_back(compute(node, nodes));
    std::vector<Tensor> results;
    for (const ContractOperand& result : contract_.results) {
      const auto& named = contract_.expression.results();
      const auto found = std::ranges::find_if(
          named, [&](const Expression::Result& r) { return r.name.empty() || r.name == result.name; });
      results.push_back(with_dtype(nodes[static_cast<size_t>(found->node)], result));
    }
    return results;
  }

 private:
  static c10::ScalarType widened(c10::ScalarType dtype) {
    return c10::isReducedFloatingType(dtype) ? at::kFloat : dtype;
  }

  // A number that leaves the dtype of what it is computed with as it is.
  Tensor number(double value) const {
    const c10::ScalarType dtype = c10::isComplexType(dtype_) ? dtype_ : c10::toRealValueType(dtype_);
    for (const Tensor& operand : operands_) {
      if (operand.defined()) return at::full({}, value, operand.options().dtype(dtype));
    }
    return at::full({}, value, at::TensorOptions().dtype(dtype));
  }

  Tensor compute(const Expression::Node& node, const std::vector<Tensor>& nodes) const {
    if (node.function != nullptr) {
      const OperatorRow* row = find_operator(node.function->name);
      MYDEV_CHECK(row != nullptr, MYDEV_UNIMPLEMENTED, "kernel '", contract_.name, "' has no gradient: '",
                  node.function->name, "' in its expression has none; give its record a gradient kernel");
      Tensor arguments[3];
      for (size_t i = 0; i < node.arguments.size(); ++i) arguments[i] = nodes[static_cast<size_t>(node.arguments[i])];
      Tensor value = row->compute(arguments);
      return value.scalar_type() == at::kBool ? value.to(dtype_) : value;
    }
    if (node.name < 0) return number(node.number);
    const auto name = static_cast<size_t>(node.name);  // operands, then attributes
    if (name >= contract_.operands.size()) return number(attribute(name - contract_.operands.size()));
    if (!operands_[name].defined()) return number(1);
    const Tensor& operand = operands_[name];
    return operand.scalar_type() == at::kBool ? operand.to(dtype_) : operand.to(widened(operand.scalar_type()));
  }

  double attribute(size_t index) const {
    const c10::IValue& value = attributes_[index];
    if (value.isNone()) return contract_.attributes[index].otherwise.value_or(0);
    if (value.isBool()) return value.toBool() ? 1 : 0;
    MYDEV_CHECK(value.isInt() || value.isDouble(), MYDEV_UNIMPLEMENTED, "kernel '", contract_.name,
                "' has no gradient: attribute '", contract_.attributes[index].name,
                "' in its expression is a list; give its record a gradient kernel");
    return value.isInt() ? static_cast<double>(value.toInt()) : value.toDouble();
  }

  Tensor with_dtype(const Tensor& computed, const ContractOperand& result) const {
    if (result.variable < 0) return computed.to(to_scalar_type(__builtin_ctzll(result.dtypes)));
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (contract_.operands[i].variable == result.variable && operands_[i].defined()) {
        return computed.to(operands_[i].scalar_type());
      }
    }
    return computed;
  }

  const KernelContract& contract_;
  c10::ArrayRef<Tensor> operands_;
  c10::ArrayRef<c10::IValue> attributes_;
  c10::ScalarType dtype_ = at::kFloat;  // of what is computed
};

}  // namespace

std::vector<Tensor> compute_expression(const KernelContract& contract, c10::ArrayRef<Tensor> operands,
                                       c10::ArrayRef<c10::IValue> attributes) {
  return ExpressionCall(contract, operands, attributes).results();
}

}  // namespace mydev
