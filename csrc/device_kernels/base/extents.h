// The dimensions that several buffers share, as few as describe them, for loops over their elements. Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mydev/custom_call.h"

namespace mydev::device_kernels {

// A dimension, with the distance of its elements in each buffer.
struct Dimension {
  int64_t size;
  std::vector<int64_t> strides;  // in elements
};

// Dimensions from the outermost to the innermost one, which is that of the smallest strides of the first buffer.
// Dimensions of one element are left out, and those that follow each other without a gap in all buffers are one.
class Extents {
 public:
  // `sizes`: those that all have. A buffer of rank 0 has one element for all.
  Extents(std::span<const int64_t> sizes, std::span<const mydev_buffer* const> buffers);

  const std::vector<Dimension>& dimensions() const noexcept { return dimensions_; }
  int64_t count() const noexcept { return count_; }  // of elements; 0 if a dimension has none
  // Takes out the dimensions that satisfy the predicate, in their order.
  template <typename Predicate>
  Extents taken(const Predicate& predicate) const {
    Extents part;
    part.buffers_ = buffers_;
    for (const Dimension& dimension : dimensions_) {
      if (predicate(dimension)) part.add(dimension);
    }
    part.merge();
    return part;
  }

  // Adds dimensions of one element, outermost, until there are `wanted`.
  void pad(size_t wanted);
  // The number of dimensions that kernels are made for, at least that of these: 1, 2, 3, 4, 6 or 8. Declines more.
  size_t padded_rank() const;

 private:
  Extents() = default;
  void add(const Dimension& dimension);
  void merge();

  std::vector<Dimension> dimensions_;
  size_t buffers_ = 0;
  int64_t count_ = 1;
};

}  // namespace mydev::device_kernels
