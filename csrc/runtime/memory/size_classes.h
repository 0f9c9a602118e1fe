// The fixed sizes of small blocks, and how larger requests are rounded.
//
// Small classes are the multiples of 64 bytes up to 512, then four per doubling up to kSmallLimit, so that rounding
// wastes at most a quarter. Segments, which the driver gives, are far larger than the blocks cut from them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace mydev {

inline constexpr size_t kSmallLimit = size_t{1} << 20;    // requests up to this size are small
inline constexpr size_t kSmallSegment = size_t{2} << 20;  // a segment that is cut into small blocks
inline constexpr size_t kMediumLimit = size_t{10}
                                       << 20;  // above it up to here share medium segments; larger ones get their own
inline constexpr size_t kSegmentGranularity = size_t{2} << 20;  // of such a segment
inline constexpr size_t kLargeGranularity = 512;                // of a block above kSmallLimit
inline constexpr size_t kSmallGranularity = 64;                 // of a block up to kSmallLimit

inline constexpr int kSizeClasses = 52;

// 1 <= bytes <= kSmallLimit.
constexpr int size_class(size_t bytes) noexcept {
  if (bytes <= 512) return static_cast<int>((bytes - 1) / 64);
  const size_t last = bytes - 1;
  const int top = std::bit_width(last) - 1;
  return 8 + (top - 9) * 4 + static_cast<int>((last >> (top - 2)) & 3);
}

constexpr size_t class_size(int size_class) noexcept {
  if (size_class < 8) return static_cast<size_t>(size_class + 1) * 64;
  const int doubling = (size_class - 8) / 4;
  const int step = (size_class - 8) % 4;
  return static_cast<size_t>(5 + step) << (doubling + 7);
}

static_assert(class_size(size_class(kSmallLimit)) == kSmallLimit && size_class(kSmallLimit) == kSizeClasses - 1);

// `granularity` is a power of two.
constexpr size_t round_up(size_t bytes, size_t granularity) noexcept {
  return (bytes + granularity - 1) & ~(granularity - 1);
}

// Rounds up to one of `divisions` (a power of two) equal steps between two powers of two.
constexpr size_t round_up_power2(size_t bytes, size_t divisions) noexcept {
  return round_up(bytes, std::bit_floor(bytes) / divisions);
}

constexpr size_t segment_size(size_t block_size, size_t medium_segment_size) noexcept {
  if (block_size <= kSmallLimit) return kSmallSegment;
  if (block_size < kMediumLimit) return medium_segment_size;
  return round_up(block_size, kSegmentGranularity);
}

}  // namespace mydev
