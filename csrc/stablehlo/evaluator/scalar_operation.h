// Operators that compute element by element, applied to one element.
#pragma once

#include "runtime/base/api.h"
#include "stablehlo/evaluator/number.h"
#include "stablehlo/ir/operation.h"

namespace mydev::stablehlo {

// True for add, compare, select, convert, ...; not for map, and for bitcast_convert only if it keeps the width.
MYDEV_API bool is_elementwise(const Operation& op) noexcept;

// Immutable; any thread.
class ScalarOperation {
 public:
  // Raises UNIMPLEMENTED for an element type that the operator is not defined for.
  explicit ScalarOperation(const Operation& op);
  // The operands are in the operation's order; the result is rounded to the result's type.
  Number apply(const Number* operands) const;

 private:
  Number unrounded(const Number* operands) const;
  Number compared(const Number& a, const Number& b) const;
  Number of_integers(const Number& a, const Number& b) const;
  Number of_floats(const Number& a, const Number& b) const;
  Number of_complex(const Number& a, const Number& b) const;

  const Operation* operation_;
  Operator op_;
  ElementType operand_, result_;
  ComparisonDirection direction_ = ComparisonDirection::kEq;
  bool total_order_ = false;
  int exponent_bits_ = 0, mantissa_bits_ = 0;
};

}  // namespace mydev::stablehlo
