#include "device_kernels/base/extents.h"

#include <algorithm>
#include <cstdlib>

#include "device_kernels/base/portable_kernel.h"

namespace mydev::device_kernels {

namespace {

bool follows(const Dimension& outer, const Dimension& inner) {
  for (size_t i = 0; i < outer.strides.size(); ++i) {
    if (outer.strides[i] != inner.strides[i] * inner.size) return false;
  }
  return true;
}

// Whether `a` belongs outside of `b`: by the first buffer that tells them apart. Distances of 0 tell nothing.
bool is_outer(const Dimension& a, const Dimension& b) {
  for (size_t i = 0; i < a.strides.size(); ++i) {
    const int64_t of_a = std::abs(a.strides[i]), of_b = std::abs(b.strides[i]);
    if (of_a != of_b && of_a != 0 && of_b != 0) return of_a > of_b;
  }
  return false;
}

}  // namespace

Extents::Extents(std::span<const int64_t> sizes, std::span<const mydev_buffer* const> buffers) {
  buffers_ = buffers.size();
  for (size_t d = 0; d < sizes.size(); ++d) {
    Dimension dimension{.size = sizes[d]};
    for (const mydev_buffer* buffer : buffers) dimension.strides.push_back(buffer->rank == 0 ? 0 : buffer->strides[d]);
    add(dimension);
  }
  // This is an insertion sort: is_outer is no order of all, where distances are 0.
  for (size_t i = 1; i < dimensions_.size(); ++i) {
    for (size_t j = i; j > 0 && is_outer(dimensions_[j], dimensions_[j - 1]); --j) {
      std::swap(dimensions_[j], dimensions_[j - 1]);
    }
  }
  merge();
}

void Extents::add(const Dimension& dimension) {
  count_ *= dimension.size;
  if (dimension.size != 1) dimensions_.push_back(dimension);
}

void Extents::merge() {
  std::vector<Dimension> merged;
  for (const Dimension& dimension : dimensions_) {
    if (!merged.empty() && follows(merged.back(), dimension)) {
      merged.back().size *= dimension.size;
      merged.back().strides = dimension.strides;
    } else {
      merged.push_back(dimension);
    }
  }
  dimensions_ = std::move(merged);
}

void Extents::pad(size_t wanted) {
  while (dimensions_.size() < wanted) {
    Dimension one{.size = 1, .strides = std::vector<int64_t>(buffers_)};
    dimensions_.insert(dimensions_.begin(), std::move(one));
  }
}

size_t Extents::padded_rank() const {
  for (const size_t rank : {1, 2, 3, 4, 6, 8}) {
    if (dimensions_.size() <= rank) return rank;
  }
  require(false, "take up to 8 dimensions that are not one, and there are ", dimensions_.size());
  return 0;
}

}  // namespace mydev::device_kernels
