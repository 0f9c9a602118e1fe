// Checks that the rules of verify() are made of. Each raises INVALID_ARGUMENT with the operation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "stablehlo/ir/operation.h"

namespace mydev::stablehlo::verifier {

using Numbers = std::vector<int64_t>;

template <typename... Parts>
void require(const Operation& op, bool holds, const Parts&... parts) {
  if (!holds) [[unlikely]]
    op.fail(MYDEV_INVALID_ARGUMENT, parts...);
}

// If a size is not known, it may be the same as the other.
inline bool same_size(int64_t left, int64_t right) {
  return left == right || left == kDynamic || right == kDynamic;
}
inline bool same_sizes(const Numbers& left, const Numbers& right) {
  return left.size() == right.size() && std::ranges::equal(left, right, same_size);
}

// The types are the same, as far as their sizes are known.
inline bool compatible(const Type& left, const Type& right) {
  if (left.kind != right.kind) return false;
  if (left.is_tensor()) return left.element == right.element && compatible_shapes(left, right);
  return left == right;
}

// True if sums of some such numbers do not overflow.
inline bool is_bounded(int64_t number) {
  return number >= -kMostTensorBytes && number <= kMostTensorBytes;
}

inline const Type& tensor(const Operation& op, const Value& value) {
  require(op, value.type->is_tensor(), "it takes and gives tensors, found ", value.type->text());
  return *value.type;
}
inline const Type& operand(const Operation& op, size_t i = 0) {
  return tensor(op, op.operand(i));
}
inline const Type& result(const Operation& op, size_t i = 0) {
  return tensor(op, op.result(i));
}

inline void require_dimension(const Operation& op, std::string_view name, int64_t dimension, int64_t rank) {
  require(op, dimension >= 0 && dimension < rank, "'", name, "' names dimension ", dimension, " of ", rank);
}

// The dimensions that an attribute names, each of them once.
inline Numbers dimensions(const Operation& op, std::string_view name, int64_t rank) {
  Numbers named = op.integers_or_none(name);
  std::vector<bool> is_named(static_cast<size_t>(rank));
  for (const int64_t dimension : named) {
    require_dimension(op, name, dimension, rank);
    require(op, !is_named[static_cast<size_t>(dimension)], "'", name, "' names dimension ", dimension, " twice");
    is_named[static_cast<size_t>(dimension)] = true;
  }
  return named;
}

inline Numbers numbers(const Operation& op, std::string_view name, int64_t count) {
  Numbers found = op.integers(name);
  require(op, static_cast<int64_t>(found.size()) == count, "'", name, "' has ", found.size(), " numbers, expected ",
          count);
  return found;
}

inline Numbers positive_numbers(const Operation& op, std::string_view name, int64_t count) {
  Numbers found = numbers(op, name, count);
  for (const int64_t number : found) require(op, number > 0, "'", name, "' has ", number, ", expected at least 1");
  return found;
}

// The numbers of a literal with two for each of `count`, pair by pair.
inline Numbers pairs(const Operation& op, std::string_view name, int64_t count) {
  const Type& type = *op.literal(name).type;
  require(op, type.dims == Numbers({count, 2}), "'", name, "' is a ", type.text(),
          ", expected two numbers for each of ", count, " dimensions");
  return op.integers(name);
}

// Requires that a type is the one that follows from the operands; `what` says whose type it is.
inline void require_type(const Operation& op, const Type& found, ElementType element, const Numbers& sizes,
                         std::string_view what) {
  if (found.element == element && same_sizes(found.dims, sizes)) return;
  const Type expected{TypeKind::kTensor, element, sizes};
  op.fail(MYDEV_INVALID_ARGUMENT, what, " is of the type ", found.text(), ", and ", expected.text(), " is expected");
}
inline void require_result(const Operation& op, ElementType element, const Numbers& sizes, size_t i = 0) {
  const Type& found = result(op, i);
  if (found.element == element && same_sizes(found.dims, sizes)) return;
  const Type expected{TypeKind::kTensor, element, sizes};
  op.fail(MYDEV_INVALID_ARGUMENT, "result ", i, " is of the type ", found.text(), ", whose ",
          found.element == element ? "sizes" : "elements", " do not follow from the operands; ", expected.text(),
          " is expected");
}

inline void require_element(const Operation& op, const Type& type, ElementType element) {
  require(op, type.element == element, "found ", type.text(), " where a tensor of ", element_row(element).mlir_name,
          " is expected");
}
inline void require_single(const Operation& op, const Type& type, std::string_view what) {
  require(op, type.rank() == 0, what, " is of the type ", type.text(), ", expected a single element");
}

// The type of a complex number's parts; another type is its own.
inline ElementType part_of(ElementType type) {
  return type == ElementType::kC64 ? ElementType::kF32 : type == ElementType::kC128 ? ElementType::kF64 : type;
}
// True if `to` is of the same kind and has at least as many bits: a computation may be done in it.
inline bool is_promotable(ElementType from, ElementType to) {
  return element_row(from).kind == element_row(to).kind && element_row(from).bits <= element_row(to).bits;
}

}  // namespace mydev::stablehlo::verifier
