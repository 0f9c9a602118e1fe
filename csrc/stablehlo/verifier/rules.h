// Rules for each operator: the types that follow from an operation's operands and attributes. verify_shapes() compares
// the types that a program declares with them.
#pragma once

#include <span>

#include "stablehlo/ir/operation.h"

namespace mydev::stablehlo::verifier {

struct RuleRow {
  Operator op;
  void (*rule)(const Operation& op);  // raises INVALID_ARGUMENT
};

// A window that moves along a dimension of a tensor.
struct WindowsAlong {
  int64_t size, base_dilation = 1;  // of the tensor
  int64_t low = 0, high = 0;        // its padding
  int64_t window, dilation = 1, stride = 1;
};
// How many windows there are; kDynamic if a size is not known. Raises INVALID_ARGUMENT for numbers that no tensor has,
// so that places within windows do not overflow. reductions.cpp
int64_t windows_along(const Operation& op, size_t dimension, const WindowsAlong& along);

std::span<const RuleRow> movement_rules() noexcept;    // movement.cpp
std::span<const RuleRow> element_rules() noexcept;     // elements.cpp
std::span<const RuleRow> reduction_rules() noexcept;   // reductions.cpp
std::span<const RuleRow> indexing_rules() noexcept;    // indexing.cpp
std::span<const RuleRow> product_rules() noexcept;     // products.cpp
std::span<const RuleRow> algebra_rules() noexcept;     // algebra.cpp
std::span<const RuleRow> collective_rules() noexcept;  // collectives.cpp

}  // namespace mydev::stablehlo::verifier
