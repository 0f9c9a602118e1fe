#include "device_kernels/text/expression_text.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "device_kernels/base/portable_kernel.h"
#include "runtime/base/status.h"

namespace mydev::device_kernels {

namespace {

// Functions of real numbers that the language has under another name; the others have the same.
constexpr std::pair<std::string_view, std::string_view> kRealNames[] = {
    {"trunc_div", "truncdiv"}, {"floor_div", "floordiv"}, {"neg", "neg"}};
constexpr std::string_view kRealFunctions[] = {
    "exp",  "exp2",  "expm1", "log",  "log2",  "log10", "log1p", "sin", "cos",  "tan",       "asin",      "acos",
    "atan", "sinh",  "cosh",  "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "sqrt",      "cbrt",      "floor",
    "ceil", "round", "trunc", "abs",  "pow",   "atan2", "max",   "min", "fmod", "remainder", "trunc_div", "floor_div"};
constexpr std::pair<std::string_view, std::string_view> kComparisons[] = {{"==", "=="}, {"!=", "!="}, {"<", "<"},
                                                                          {"<=", "<="}, {">", ">"},   {">=", ">="}};
// Functions of integers, and what the language calls them.
constexpr std::pair<std::string_view, std::string_view> kIntegerFunctions[] = {{"+", "sum"},
                                                                               {"*", "prod"},
                                                                               {"pow", "pow"},
                                                                               {"max", "max"},
                                                                               {"min", "min"},
                                                                               {"trunc_div", "truncdiv"},
                                                                               {"fmod", "fmod"},
                                                                               {"floor_div", "floordiv"},
                                                                               {"remainder", "remainder"},
                                                                               {"shift_left", "shift_left"},
                                                                               {"shift_right", "shift_right"}};
constexpr std::string_view kDivisions[] = {"trunc_div", "fmod", "floor_div", "remainder"};
constexpr std::pair<std::string_view, std::string_view> kBits[] = {{"bit_and", "&"}, {"bit_or", "|"}, {"bit_xor", "^"}};

template <size_t kSize>
std::string_view find_in(const std::pair<std::string_view, std::string_view> (&table)[kSize], std::string_view name) {
  for (const auto& [known, value] : table) {
    if (known == name) return value;
  }
  return {};
}

}  // namespace

void ExpressionText::begin_block() {
  printed_.clear();
  placed_.clear();
  statements_.clear();
}

std::string ExpressionText::value(const Printed& printed) const {
  if (!printed.is_truth) return printed.text;
  if (!is_complex(domain_)) return std::string("((") + domain_type(domain_) + ")" + printed.text + ")";
  return std::string("make_") + domain_type(domain_) + "(" + printed.text + ", 0)";
}

std::string ExpressionText::truth(const Printed& printed) const {
  if (printed.is_truth) return printed.text;
  if (is_complex(domain_)) return std::string("truth_") + domain_type(domain_) + "(" + printed.text + ")";
  return "(" + printed.text + " != 0)";
}

int32_t ExpressionText::node_of(const std::string& result) const {
  const auto& results = expression_.results();
  const auto same = [&](const Expression::Result& r) { return r.name.empty() || r.name == result; };
  const auto found = std::ranges::find_if(results, same);
  MYDEV_ASSERT(found != results.end());
  return found->node;
}

std::vector<int32_t> ExpressionText::reductions_of(int32_t node) {
  std::vector<int32_t> found;
  needs(node, found);
  return found;
}

bool ExpressionText::needs(int32_t index, std::vector<int32_t>& found) {
  const Expression::Node& node = expression_.nodes()[static_cast<size_t>(index)];
  if (node.function == nullptr) return false;
  if (std::string_view(node.function->name) == "where") {  // of a choice that is known, one side
    const std::optional<double> condition = constant_of(node.arguments[0]);
    if (condition) return needs(node.arguments[*condition != 0 ? 1 : 2], found);
  }
  bool any = false;
  for (const int32_t argument : node.arguments) any |= needs(argument, found);
  if (node.function->is_reduction() && std::ranges::find(found, index) == found.end()) found.push_back(index);
  return any || node.function->is_reduction();
}

Printed ExpressionText::print(int32_t index) {
  if (const auto known = known_.find(index); known != known_.end()) return known->second;
  if (const auto printed = printed_.find(index); printed != printed_.end()) return printed->second;
  const Expression::Node& node = expression_.nodes()[static_cast<size_t>(index)];
  Printed result;
  if (node.name >= 0) {
    const std::string& name = expression_.names()[static_cast<size_t>(node.name)];
    const auto bound = names_.find(name);
    require(bound != names_.end(), "know no '", name, "' of the expression");
    if (const auto late = late_.find(name); late != late_.end() && !placed_[name]) {
      placed_[name] = true;
      statements_ += late->second;
    }
    result = bound->second;
  } else if (node.function == nullptr) {
    result = {literal(node.number, domain_), false, node.number};
  } else {
    require(!node.function->is_reduction(), "reduce in no place but the contract's");
    result = print_function(node);
  }
  return printed_[index] = result;
}

std::optional<double> ExpressionText::constant_of(int32_t index) const {
  const Expression::Node& node = expression_.nodes()[static_cast<size_t>(index)];
  if (node.name >= 0) {
    const auto bound = names_.find(expression_.names()[static_cast<size_t>(node.name)]);
    return bound == names_.end() ? std::nullopt : bound->second.constant;
  }
  if (node.function == nullptr) return node.number;
  if (std::string_view(node.function->name) != "==") return std::nullopt;
  const std::optional<double> a = constant_of(node.arguments[0]), b = constant_of(node.arguments[1]);
  return a && b ? std::optional<double>(*a == *b ? 1 : 0) : std::nullopt;
}

std::string ExpressionText::variable(const std::string& type, const std::string& text) {
  const std::string name = "v" + std::to_string(variables_++);
  statements_ += "const " + type + " " + name + " = " + text + ";\n";
  return name;
}

std::string ExpressionText::call(const std::string& function, const std::vector<Printed>& arguments) const {
  std::string text = function + "_" + domain_type(domain_) + "(";
  for (size_t i = 0; i < arguments.size(); ++i) text += (i == 0 ? "" : ", ") + value(arguments[i]);
  return text + ")";
}

Printed ExpressionText::print_function(const Expression::Node& node) {
  std::string name = node.function->name;
  if (name == "where") {
    const std::optional<double> condition = constant_of(node.arguments[0]);
    if (condition) return print(node.arguments[*condition != 0 ? 1 : 2]);
  }
  // A truth value has two values, and no further bits.
  if (dtype_ == MYDEV_PRED && name == "bit_not") name = "not";
  std::vector<Printed> arguments;
  arguments.reserve(node.arguments.size());
  for (const int32_t argument : node.arguments) arguments.push_back(print(argument));
  Printed made;
  if (name == "and" || name == "or") {
    made = {"(" + truth(arguments[0]) + (name == "and" ? " && " : " || ") + truth(arguments[1]) + ")", true, {}};
  } else if (name == "not") {
    made = {"(!" + truth(arguments[0]) + ")", true, {}};
  } else if (name == "where") {
    made = {"(" + truth(arguments[0]) + " ? " + value(arguments[1]) + " : " + value(arguments[2]) + ")", false, {}};
  } else if (const std::string_view sign = find_in(kComparisons, name); !sign.empty() && !is_complex(domain_)) {
    made = {"(" + value(arguments[0]) + " " + std::string(sign) + " " + value(arguments[1]) + ")", true, {}};
  } else if (is_complex(domain_)) {
    made = of_complex(name, arguments);
  } else {
    made = domain_ == Domain::kI64 ? of_integers(name, arguments) : of_reals(name, arguments, node);
  }
  made.text = variable(made.is_truth ? "bool" : domain_type(domain_), made.text);
  return made;
}

Printed ExpressionText::of_reals(const std::string& name, const std::vector<Printed>& x, const Expression::Node& node) {
  const std::string type = domain_type(domain_);
  if (name == "+") {  // 1 + erf(x), as in GELU, is known to more digits than its parts
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const Expression::Node& other = expression_.nodes()[static_cast<size_t>(node.arguments[1 - i])];
      const bool is_erf = other.function != nullptr && std::string_view(other.function->name) == "erf";
      if (x[i].constant == 1.0 && is_erf) return {call("one_plus_erf", {print(other.arguments[0])}), false, {}};
    }
  }
  for (const char* sign : {"+", "-", "*", "/"}) {
    if (name == sign) return {"(" + value(x[0]) + " " + sign + " " + value(x[1]) + ")", false, {}};
  }
  if (name == "neg") return {"(-" + value(x[0]) + ")", false, {}};
  if (name == "isnan") return {"(" + value(x[0]) + " != " + value(x[0]) + ")", true, {}};
  if (name == "isinf") return {"(" + call("abs", x) + " == INFINITY_" + type + ")", true, {}};
  if (name == "sign") {
    return {"((" + type + ")((" + value(x[0]) + " > 0) - (" + value(x[0]) + " < 0)))", false, {}};
  }
  require(std::ranges::find(kRealFunctions, name) != std::end(kRealFunctions), "have no ", name, " of real numbers");
  const std::string_view renamed = find_in(kRealNames, name);
  return {call(renamed.empty() ? name : std::string(renamed), x), false, {}};
}

Printed ExpressionText::of_integers(const std::string& name, const std::vector<Printed>& x) {
  if (name == "-") return {"((i64)((u64)" + value(x[0]) + " - (u64)" + value(x[1]) + "))", false, {}};
  if (name == "neg") return {"((i64)(0 - (u64)" + value(x[0]) + "))", false, {}};
  if (name == "abs")
    return {"(" + value(x[0]) + " < 0 ? (i64)(0 - (u64)" + value(x[0]) + ") : " + value(x[0]) + ")", false, {}};
  if (name == "sign") return {"((i64)((" + value(x[0]) + " > 0) - (" + value(x[0]) + " < 0)))", false, {}};
  if (name == "bit_not") return {"(~" + value(x[0]) + ")", false, {}};
  if (const std::string_view sign = find_in(kBits, name); !sign.empty()) {
    return {"(" + value(x[0]) + " " + std::string(sign) + " " + value(x[1]) + ")", false, {}};
  }
  const std::string_view function = find_in(kIntegerFunctions, name);
  require(!function.empty(), "have no ", name, " of integers");
  const bool divides = std::ranges::find(kDivisions, name) != std::end(kDivisions);
  if (!divides || x[1].constant.value_or(0) != 0) return {call(std::string(function), x), false, {}};
  const std::string divisor = "divisor" + std::to_string(variables_++);
  statements_.append("i64 ").append(divisor).append(" = ").append(value(x[1]));
  statements_.append(";\nCHECK_DIVISOR(").append(divisor).append(");\n");
  return {call(std::string(function), {x[0], {divisor, false, {}}}), false, {}};
}

Printed ExpressionText::of_complex(const std::string& name, const std::vector<Printed>& x) {
  if (name == "==" || name == "!=") return {(name == "==" ? "" : "!") + call("same", x), true, {}};
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"+", "sum"}, {"-", "difference"}, {"*", "prod"}, {"/", "quotient"}, {"neg", "neg"}};
  const std::string_view function = find_in(kNames, name);
  require(!function.empty(), "have no ", name, " of complex numbers");
  return {call(std::string(function), x), false, {}};
}

}  // namespace mydev::device_kernels
