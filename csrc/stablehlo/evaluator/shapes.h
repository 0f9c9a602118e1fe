// Walking through tensors, for evaluations.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/base/api.h"
#include "runtime/base/parallel.h"
#include "stablehlo/evaluator/number.h"
#include "stablehlo/ir/operation.h"

namespace mydev::stablehlo {

using Sizes = std::vector<int64_t>;

inline Sizes row_major_strides(const Sizes& sizes) {
  Sizes strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  return strides;
}

// The indices of an array one after the other, in row-major order.
class Index {
 public:
  explicit Index(const Sizes& sizes) : sizes_(sizes), at_(sizes.size(), 0), left_(count_of(sizes)) {}
  explicit operator bool() const noexcept { return left_ > 0; }
  int64_t operator[](size_t d) const noexcept { return at_[d]; }
  const Sizes& at() const noexcept { return at_; }

  void next() noexcept {
    --left_;
    for (size_t d = at_.size(); d-- > 0;) {
      if (++at_[d] < sizes_[d]) return;
      at_[d] = 0;
    }
  }
  // The index of the element with that number.
  void seek(int64_t number) noexcept {
    left_ = count_of(sizes_) - number;
    for (size_t d = at_.size(); d-- > 0;) {
      at_[d] = number % sizes_[d];
      number /= sizes_[d];
    }
  }
  int64_t offset(const Sizes& strides) const noexcept {
    int64_t offset = 0;
    for (size_t d = 0; d < at_.size(); ++d) offset += at_[d] * strides[d];
    return offset;
  }

 private:
  const Sizes& sizes_;
  Sizes at_;
  int64_t left_;
};

// An element of a dense tensor.
inline Number element(const Type& type, const std::byte* data, int64_t index) noexcept {
  return load(type.element, data + index * element_bytes(type.element));
}
inline void set_element(const Type& type, std::byte* data, int64_t index, const Number& number) noexcept {
  store(type.element, number, data + index * element_bytes(type.element));
}

// Reads dense integers, as operands that give sizes are. dynamic_shapes.cpp
MYDEV_API Sizes numbers_of(const Type& type, const std::byte* data);
// Raises INVALID_ARGUMENT, with the operation, unless the operand gives the sizes that the result's type needs.
MYDEV_API void require_sizes(const Operation& op, size_t operand, const Sizes& expected, const Sizes& given);

}  // namespace mydev::stablehlo
