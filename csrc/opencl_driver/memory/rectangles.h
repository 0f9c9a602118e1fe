// A copy between two views as OpenCL has it: rows of bytes, at one distance in a slice, and slices at another.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "mydev/driver.h"

namespace mydev::opencl_driver {

struct Rectangles {
  std::array<size_t, 3> region{1, 1, 1};           // bytes of a row, rows of a slice, slices
  std::array<size_t, 2> dst_pitch{}, src_pitch{};  // bytes from row to row, and from slice to slice

  size_t bytes() const { return region[0] * region[1] * region[2]; }
  size_t dst_span() const { return span(dst_pitch); }  // bytes from the first to behind the last
  size_t src_span() const { return span(src_pitch); }

 private:
  size_t span(const std::array<size_t, 2>& pitch) const {
    return region[0] + (region[1] - 1) * pitch[0] + (region[2] - 1) * pitch[1];
  }
};

// Nothing for views that have more distances than these, or others than OpenCL allows: transposed and repeated ones.
std::optional<Rectangles> rectangles_of(const mydev_buffer& dst, const mydev_buffer& src);

}  // namespace mydev::opencl_driver
