// Types of values and of attributes. There are no quantized types: readers refuse them.
//
// A Type does not change once its module has it; values and attributes point to it. Two that are equal may be two
// objects: compare with ==. The text of one is MLIR's ("tensor<4x?xf32>").
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "runtime/base/api.h"
#include "stablehlo/ir/element_type.h"

namespace mydev::stablehlo {

// A size that is known only when the program runs.
inline constexpr int64_t kDynamic = std::numeric_limits<int64_t>::min();

enum class TypeKind : uint8_t {
  kTensor,    // ranked
  kUnranked,  // a tensor of any rank
  kBuffer,    // ranked; memory that operators update in place
  kElement,   // a bare number, which attributes have
  kToken,
  kTuple,
  kFunction,
  kNone,
  kWitness,
};

struct MYDEV_API Type {
  TypeKind kind = TypeKind::kNone;
  ElementType element = ElementType::kNone;  // of tensors, buffers and bare numbers
  std::vector<int64_t> dims;                 // of tensors and buffers; kDynamic where it is not known
  std::vector<int64_t> bounds;               // of a tensor: the most that a dynamic size may be, or kDynamic; or empty
  std::vector<const Type*> inputs;           // of a tuple: its elements; of a function: its arguments
  std::vector<const Type*> results;          // of a function

  bool is_tensor() const noexcept { return kind == TypeKind::kTensor; }
  int64_t rank() const noexcept { return static_cast<int64_t>(dims.size()); }
  bool is_static() const noexcept;
  // The number of elements of a tensor whose sizes are all known, which readers have checked not to overflow; else
  // kDynamic.
  int64_t element_count() const noexcept;
  // The bytes of the elements in memory; else kDynamic.
  int64_t bytes() const noexcept;

  std::string text() const;
};

// Structural.
MYDEV_API bool operator==(const Type& left, const Type& right) noexcept;
// True if the sizes are the same, as far as both are known.
bool compatible_shapes(const Type& left, const Type& right) noexcept;

// The number of elements of a tensor of these sizes, which are known and do not overflow.
inline int64_t count_of(const std::vector<int64_t>& sizes) noexcept {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}
// The most bytes that a tensor may have: offsets into it do not overflow.
inline constexpr int64_t kMostTensorBytes = int64_t{1} << 56;
// True if each size is kDynamic or not negative, and the bytes of the known sizes are within kMostTensorBytes.
MYDEV_API bool sizes_are_valid(const Type& type) noexcept;

}  // namespace mydev::stablehlo
