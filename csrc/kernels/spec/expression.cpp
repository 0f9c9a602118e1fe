// Parsing and evaluating expressions.
#include "kernels/spec/expression.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "runtime/base/status.h"
#include "runtime/base/text_scanner.h"
#include "runtime/frame/dtype.h"

namespace mydev {

namespace {

const ExpressionFunction* find_function(std::string_view name) {
  const auto functions = expression_functions();
  const auto found = std::find_if(functions.begin(), functions.end(), [&](const auto& f) { return name == f.name; });
  return found != functions.end() ? &*found : nullptr;
}

// By recursive descent, the nesting bounded.
class ExpressionParser final : public TextScanner {
 public:
  ExpressionParser(std::string_view text, const std::vector<std::string>& names, std::span<const std::string> results,
                   std::vector<Expression::Node>& nodes)
      : TextScanner(text), names_(names), results_(results), nodes_(nodes) {}

  std::vector<Expression::Result> program() {
    std::vector<Expression::Result> found;
    while (true) {
      const std::string name = definition();
      const int32_t node = disjunction();
      const bool is_result = std::find(results_.begin(), results_.end(), name) != results_.end();
      if (take(";")) {
        if (name.empty()) fail("a formula without a name that is not the last");
      } else {
        if (!at_end()) fail_expecting("an operator, ';' or the end");
        if (!name.empty() && !is_result) fail("the last formula is for '" + name + "', which is no result");
        if (name.empty() && !found.empty()) fail("a result without a name beside one with a name");
        found.push_back({name, node});
        break;
      }
      if (is_result) found.push_back({name, node});
      defined_.push_back({name, node});
    }
    return found;
  }

 private:
  static constexpr int kMaxDepth = 64;

  [[noreturn]] void fail(const std::string& what) const {
    raise(MYDEV_INVALID_ARGUMENT,
          "expression \"" + std::string(text_) + "\": " + what + " at position " + std::to_string(position_));
  }
  [[noreturn]] void fail_expecting(const std::string& expected) override { fail("expected " + expected); }
  std::string_view identifier() { return word("a number, a name or '('"); }

  int32_t add(Expression::Node node) {
    nodes_.push_back(std::move(node));
    return static_cast<int32_t>(nodes_.size() - 1);
  }
  int32_t call(std::string_view function, std::vector<int32_t> arguments) {
    return add({.function = find_function(function), .arguments = std::move(arguments)});
  }

  // "name =" at the beginning of a formula; "" if there is none.
  std::string definition() {
    const size_t begin = position_;
    const std::string_view name = next_word();
    if (name.empty()) return "";
    advance(name.size());
    if (!at("=") || at("==")) {
      position_ = begin;
      return "";
    }
    const auto same = [&](const Definition& d) { return d.name == name; };
    const bool known = std::find(names_.begin(), names_.end(), name) != names_.end() ||
                       std::any_of(defined_.begin(), defined_.end(), same);
    if (known) fail("'" + std::string(name) + "' is given a second meaning");
    ++position_;
    return std::string(name);
  }

  int32_t disjunction() {
    int32_t left = conjunction();
    while (take_word("or")) left = call("or", {left, conjunction()});
    return left;
  }
  int32_t conjunction() {
    int32_t left = negation();
    while (take_word("and")) left = call("and", {left, negation()});
    return left;
  }
  int32_t negation() { return take_word("not") ? call("not", {comparison()}) : comparison(); }
  int32_t comparison() {
    const int32_t left = sum();
    for (const char* symbol : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (take(symbol)) return call(symbol, {left, sum()});
    }
    return left;
  }
  int32_t sum() {
    int32_t left = product();
    while (true) {
      if (take("+")) {
        left = call("+", {left, product()});
      } else if (take("-")) {
        left = call("-", {left, product()});
      } else {
        return left;
      }
    }
  }
  int32_t product() {
    int32_t left = factor();
    while (true) {
      if (take("*")) {
        left = call("*", {left, factor()});
      } else if (take("/")) {
        left = call("/", {left, factor()});
      } else {
        return left;
      }
    }
  }
  int32_t factor() {
    if (++depth_ > kMaxDepth) fail("more than 64 parts inside one another");
    const int32_t node = unbounded_factor();
    --depth_;
    return node;
  }
  int32_t unbounded_factor() {
    if (take("-")) return call("neg", {factor()});
    if (is_digit(peek())) return number();
    if (take("(")) {
      const int32_t inner = disjunction();
      if (!take(")")) fail_expecting("an operator or ')'");
      return inner;
    }
    const size_t begin = position_;
    const std::string_view name = identifier();
    if (take("(")) return function_call(name, begin);
    const auto defined = std::find_if(defined_.begin(), defined_.end(), [&](const auto& d) { return d.name == name; });
    if (defined != defined_.end()) return defined->node;
    const auto known = std::find(names_.begin(), names_.end(), name);
    if (known == names_.end()) {
      position_ = begin;
      fail("'" + std::string(name) + "' is no operand, attribute or size");
    }
    return add({.name = static_cast<int32_t>(known - names_.begin())});
  }
  int32_t number() {
    Expression::Node node;
    const char* begin = text_.data() + position_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), node.number);
    if (error != std::errc()) fail("a number that is too large");
    position_ += static_cast<size_t>(end - begin);
    return add(std::move(node));
  }
  int32_t function_call(std::string_view name, size_t begin) {
    const ExpressionFunction* function = find_function(name);
    std::vector<int32_t> arguments;
    do {
      arguments.push_back(disjunction());
    } while (take(","));
    if (!take(")")) fail_expecting("an operator, ',' or ')'");
    if (function == nullptr || static_cast<size_t>(function->arity) != arguments.size()) {
      position_ = begin;
      fail("there is no function '" + std::string(name) + "' of " + std::to_string(arguments.size()) + " arguments");
    }
    return call(name, std::move(arguments));
  }

  struct Definition {
    std::string name;
    int32_t node;
  };

  const std::vector<std::string>& names_;
  std::span<const std::string> results_;
  std::vector<Expression::Node>& nodes_;
  std::vector<Definition> defined_;
  int depth_ = 0;
};

// --- evaluation ------------------------------------------------------------------------------------------------------

auto function_of(const ExpressionFunction& f, double /*domain*/) {
  return f.real;
}
auto function_of(const ExpressionFunction& f, int64_t /*domain*/) {
  return f.integer;
}
auto function_of(const ExpressionFunction& f, std::complex<double> /*domain*/) {
  return f.complex;
}
auto reduction_of(const ExpressionFunction& f, double /*domain*/) {
  return f.reduce_real;
}
auto reduction_of(const ExpressionFunction& f, int64_t /*domain*/) {
  return f.reduce_integer;
}
std::complex<double> (*reduction_of(const ExpressionFunction& /*f*/,
                                    std::complex<double> /*domain*/))(std::span<const std::complex<double>>) {
  return nullptr;
}

template <typename Value>
Value from_number(double number) {
  return static_cast<Value>(number);
}

template <typename Value>
const Value& value_at(const Series<Value>& series, size_t i) {
  return series.values[series.uniform ? 0 : i];
}

// Returns the values that a reduction is over: all elements; a uniform value is repeated `count` times.
template <typename Value>
std::vector<Value> all_values(const Series<Value>& series, size_t count) {
  return series.uniform ? std::vector<Value>(count, series.values[0]) : series.values;
}

template <typename Value>
Series<Value> apply(const ExpressionFunction& function, const std::vector<const Series<Value>*>& arguments,
                    size_t count, mydev_dtype dtype) {
  if (function.is_reduction()) {
    const auto reduce = reduction_of(function, Value{});
    MYDEV_CHECK(reduce != nullptr, MYDEV_UNIMPLEMENTED, "'", function.name, "' is not defined for ",
                dtype_row(dtype).name);
    return {{reduce(all_values(*arguments[0], count))}, true};
  }
  const auto compute = function_of(function, Value{});
  MYDEV_CHECK(compute != nullptr, MYDEV_UNIMPLEMENTED, "'", function.name, "' is not defined for ",
              dtype_row(dtype).name);
  Series<Value> result;
  result.uniform = std::all_of(arguments.begin(), arguments.end(), [](const auto* a) { return a->uniform; });
  for (size_t i = 0; i < (result.uniform ? 1 : count); ++i) {
    Value values[3];
    for (size_t k = 0; k < arguments.size(); ++k) values[k] = value_at(*arguments[k], i);
    result.values.push_back(compute(values));
  }
  return result;
}

}  // namespace

Expression::Expression(std::string_view text, std::vector<std::string> names, std::span<const std::string> results)
    : text_(text), names_(std::move(names)) {
  results_ = ExpressionParser(text_, names_, results, nodes_).program();
}

bool Expression::reduces() const noexcept {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [](const Node& n) { return n.function != nullptr && n.function->is_reduction(); });
}

bool Expression::reads(std::string_view name) const noexcept {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [&](const Node& n) { return n.name >= 0 && names_[static_cast<size_t>(n.name)] == name; });
}

template <typename Value>
Series<Value> Expression::evaluate(size_t result, std::span<const Series<Value>> inputs, size_t count,
                                   mydev_dtype dtype) const {
  const auto wanted = static_cast<size_t>(results_[result].node);
  std::vector<Series<Value>> computed(wanted + 1);
  for (size_t i = 0; i <= wanted; ++i) {
    const Node& node = nodes_[i];
    if (node.name >= 0) {
      computed[i] = inputs[static_cast<size_t>(node.name)];
    } else if (node.function == nullptr) {
      computed[i] = {{from_number<Value>(node.number)}, true};
    } else {
      std::vector<const Series<Value>*> arguments;
      arguments.reserve(node.arguments.size());
      for (const int32_t argument : node.arguments) arguments.push_back(&computed[static_cast<size_t>(argument)]);
      // A predicate has two values, and no further bits.
      const bool inverts = dtype == MYDEV_PRED && node.function->name == std::string_view("bit_not");
      computed[i] = apply(inverts ? *find_function("not") : *node.function, arguments, count, dtype);
    }
  }
  return computed[wanted];
}

template Series<double> Expression::evaluate(size_t, std::span<const Series<double>>, size_t, mydev_dtype) const;
template Series<int64_t> Expression::evaluate(size_t, std::span<const Series<int64_t>>, size_t, mydev_dtype) const;
template Series<std::complex<double>> Expression::evaluate(size_t, std::span<const Series<std::complex<double>>>,
                                                           size_t, mydev_dtype) const;

}  // namespace mydev
