#include "opencl_driver/memory/rectangles.h"

#include <cstdint>

#include "driver_support/element_size.h"

namespace mydev::opencl_driver {

namespace {

// Shorter rows are packed into dense memory, by a kernel or by the host, in less time than a device copies them.
constexpr size_t kShortestRow = 64;

struct Dimension {
  size_t size;
  int64_t dst, src;  // bytes from one to the next
};

}  // namespace

std::optional<Rectangles> rectangles_of(const mydev_buffer& dst, const mydev_buffer& src) {
  const auto bytes = static_cast<size_t>(driver_support::element_size(dst.dtype));
  // From the innermost on; the bytes of an element come first. Neighbours that are one in both views are merged.
  std::array<Dimension, 3> dimensions{};
  dimensions[0] = {bytes, 1, 1};
  size_t used = 1;
  for (int32_t d = dst.rank - 1; d >= 0; --d) {
    const Dimension next = {static_cast<size_t>(dst.sizes[d]), dst.strides[d] * static_cast<int64_t>(bytes),
                            src.strides[d] * static_cast<int64_t>(bytes)};
    if (next.size == 1) continue;
    Dimension& last = dimensions[used - 1];
    const auto length = static_cast<int64_t>(last.size);
    if (next.dst == last.dst * length && next.src == last.src * length) {
      last.size *= next.size;
    } else if (used == dimensions.size()) {
      return std::nullopt;
    } else {
      dimensions[used++] = next;
    }
  }
  if (used > 1 && dimensions[0].size < kShortestRow) return std::nullopt;
  Rectangles made;
  for (size_t i = 0; i < used; ++i) made.region[i] = dimensions[i].size;
  // A row's distance is at least its length, and a slice's a multiple of the row's that covers the slice.
  const auto pitches = [&](int64_t row, int64_t slice, std::array<size_t, 2>& out) {
    if (used < 2) row = static_cast<int64_t>(made.region[0]);
    if (used < 3) slice = row * static_cast<int64_t>(made.region[1]);
    out = {static_cast<size_t>(row), static_cast<size_t>(slice)};
    return row >= static_cast<int64_t>(made.region[0]) && slice >= row * static_cast<int64_t>(made.region[1]) &&
           slice % row == 0;
  };
  if (!pitches(dimensions[1].dst, dimensions[2].dst, made.dst_pitch)) return std::nullopt;
  if (!pitches(dimensions[1].src, dimensions[2].src, made.src_pitch)) return std::nullopt;
  return made;
}

}  // namespace mydev::opencl_driver
