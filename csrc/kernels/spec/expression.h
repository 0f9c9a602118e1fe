// Expressions: what a kernel computes, as text that is read by people and by programs.
//
//   program    = { name "=" formula ";" } [ name "=" ] formula
//   formula    = conjunction { "or" conjunction }
//   conjunction = negation { "and" negation }
//   negation   = [ "not" ] comparison
//   comparison = sum [ ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) sum ]
//   sum        = product { ( "+" | "-" ) product }
//   product    = factor { ( "*" | "/" ) factor }
//   factor     = "-" factor | number | name | function "(" formula { "," formula } ")" | "(" formula ")"
//
// Names are operands, attributes and sizes of the kernel, and what the program has defined before. The last formula, or
// a formula whose name is a result's, is that result. Comparisons and logic give 1 or 0, and anything but 0 is true.
// sum, prod, mean, amax, amin, any, all, argmax, argmin and count are over all elements that go into a result; of
// nothing they give 0, 1, NaN, the lowest value, the highest value, 0, 1, -1, -1 and 0. max, min, amax and amin give
// NaN if an operand is. Integers wrap round in 64 bits and are not divided by "/"; a shift by a negative count, or by
// more than there are bits, shifts all of them out. round takes halves to even. expression_functions() has the rest.
//
// A parsed expression does not change: any thread may read it.
#pragma once

#include <complex>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mydev/custom_call.h"
#include "runtime/base/api.h"

namespace mydev {

// Computed element by element: a function over values, in each of the domains that it has.
struct ExpressionFunction {
  const char* name;
  int32_t arity;
  double (*real)(const double*);  // nullptr: no such function of this domain
  int64_t (*integer)(const int64_t*);
  std::complex<double> (*complex)(const std::complex<double>*);
  // Over all elements, in place of the above.
  double (*reduce_real)(std::span<const double>) = nullptr;
  int64_t (*reduce_integer)(std::span<const int64_t>) = nullptr;

  bool is_reduction() const noexcept { return reduce_real != nullptr; }
};

// All of them, operators included: "+" and "neg" are functions of two and one argument.
std::span<const ExpressionFunction> expression_functions() noexcept;

// The values that a name has: one, or one for each element.
template <typename Value>
struct Series {
  std::vector<Value> values;
  bool uniform = true;  // one value, the same for each element
};

class MYDEV_API Expression {
 public:
  struct Node {
    const ExpressionFunction* function = nullptr;  // nullptr: a number or a name
    int32_t name = -1;                             // index in names(), of a name
    double number = 0;
    std::vector<int32_t> arguments;  // earlier nodes
  };
  struct Result {
    std::string name;  // "" for a program of one formula without a name
    int32_t node;
  };

  Expression() = default;
  // `names` are what the text may speak of, `results` what it may define as results. Raises INVALID_ARGUMENT with the
  // position of the mistake.
  Expression(std::string_view text, std::vector<std::string> names, std::span<const std::string> results);

  bool empty() const noexcept { return nodes_.empty(); }
  const std::string& text() const noexcept { return text_; }
  const std::vector<std::string>& names() const noexcept { return names_; }
  const std::vector<Node>& nodes() const noexcept { return nodes_; }
  const std::vector<Result>& results() const noexcept { return results_; }
  bool reduces() const noexcept;
  // Whether the result depends on the name.
  bool reads(std::string_view name) const noexcept;

  // Returns the values of a result, an index into results(). There is one series for each of names(); those that are
  // not uniform have `count` values. Integers of dtype PRED are 0 or 1. Raises UNIMPLEMENTED for a function that the
  // domain does not have.
  template <typename Value>
  Series<Value> evaluate(size_t result, std::span<const Series<Value>> inputs, size_t count,
                         mydev_dtype dtype = MYDEV_DTYPE_INVALID) const;

 private:
  std::string text_;
  std::vector<std::string> names_;
  std::vector<Node> nodes_;
  std::vector<Result> results_;
};

extern template Series<double> Expression::evaluate(size_t, std::span<const Series<double>>, size_t, mydev_dtype) const;
extern template Series<int64_t> Expression::evaluate(size_t, std::span<const Series<int64_t>>, size_t,
                                                     mydev_dtype) const;
extern template Series<std::complex<double>> Expression::evaluate(size_t, std::span<const Series<std::complex<double>>>,
                                                                  size_t, mydev_dtype) const;

}  // namespace mydev
