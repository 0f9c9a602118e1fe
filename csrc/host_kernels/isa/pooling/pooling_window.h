// Windows and the elements that they read, which the loops of pooling share (pooling_loops.h).
//
// The loops work on tiles of results that a vector can run along: neighbours in a row where there is one lane, else the
// lanes of one position. Rows of results come tap by tap: the elements that a tap gives to the results of the tile are
// gathered into a buffer, then compared or added lane by lane. Buffers are whole vectors long, so that narrow images
// need no scalar tails.
#pragma once

#include <algorithm>
#include <type_traits>

#include "host_kernels/isa/isa.h"
#include "host_kernels/pooling_loops.h"

namespace mydev::kernels::MYDEV_ISA {

inline constexpr int64_t kTile = 512;       // results per tile, a multiple of kStep
inline constexpr int64_t kStep = 16;        // lanes that the compiler unrolls into vectors
inline constexpr int64_t kKnownSpans = 16;  // taps whose spans are computed once

// Rounded up. Mostly by 1, which is worth a branch: a division costs more than the rest of a window.
inline int64_t divide_up(int64_t a, int64_t b) {
  return b == 1 ? a : (a + b - 1) / b;
}

// The input positions that result position `o` reads: taps of the kernel that lie inside, and what an average divides
// by.
struct Window {
  int64_t first;        // input position of the first tap inside
  int64_t taps;         // inside; 0 if none
  int64_t padded_taps;  // that count with count_include_pad
};

inline Window window_at(const PoolingAxis& axis, bool adaptive, int64_t o) {
  if (adaptive) {
    const int64_t begin = o * axis.in / axis.out, end = ((o + 1) * axis.in + axis.out - 1) / axis.out;
    return {begin, end - begin, end - begin};
  }
  const int64_t start = o * axis.stride - axis.padding;
  const int64_t skipped = start < 0 ? divide_up(-start, axis.dilation) : 0;
  const int64_t first = start + skipped * axis.dilation;
  const int64_t inside = first < axis.in ? divide_up(axis.in - first, axis.dilation) : 0;
  const int64_t padded = std::min(start + axis.kernel, axis.in + axis.padding) - start;
  return {first, std::max<int64_t>(std::min(axis.kernel - skipped, inside), 0), padded};
}

// The results [begin, end) of a row whose tap number `tap` lies inside.
struct Span {
  int64_t begin, end;
};
inline Span span_of_tap(const PoolingAxis& axis, int64_t tap, Span of) {
  const int64_t shift = axis.padding - tap * axis.dilation;  // result o reads input o * stride - shift
  const int64_t begin = shift > 0 ? divide_up(shift, axis.stride) : 0;
  const int64_t last = axis.in - 1 + shift;
  const int64_t end = last < 0 ? 0 : last / axis.stride + 1;
  return {std::max(begin, of.begin), std::min(end, of.end)};
}

// The spans of the first taps, computed once for all rows: they take divisions.
class TapSpans {
 public:
  TapSpans(const PoolingAxis& axis, Span of) : axis_(axis), of_(of) {
    for (int64_t tap = 0; tap < std::min(axis.kernel, kKnownSpans); ++tap) spans_[tap] = span_of_tap(axis, tap, of);
  }
  Span operator[](int64_t tap) const { return tap < kKnownSpans ? spans_[tap] : span_of_tap(axis_, tap, of_); }

 private:
  const PoolingAxis& axis_;
  Span of_;
  Span spans_[kKnownSpans];
};

// Calls body(step) with `step` a constant where that helps.
template <typename Body>
inline void with_constant_step(int64_t step, const Body& body) {
  switch (step) {
    case 1:
      return body(std::integral_constant<int64_t, 1>());
    case 2:
      return body(std::integral_constant<int64_t, 2>());
    default:
      return body(step);
  }
}

inline int64_t whole_steps(int64_t n) {
  return (n + kStep - 1) / kStep * kStep;
}

// Gathers the element that a tap reads for each result of a tile, or `outside` if it reads none; whole_steps(n)
// elements.
template <typename T>
inline void gather_tap(const T* row, const PoolingAxis& axis, int64_t tap, Span of, Span span, T outside, T* to) {
  const int64_t n = whole_steps(of.end - of.begin);
  if (span.begin >= span.end) span = {of.begin, of.begin};
  const int64_t first = span.begin - of.begin, count = span.end - span.begin;
  for (int64_t i = 0; i < first; ++i) to[i] = outside;
  const T* from = row + span.begin * axis.stride - axis.padding + tap * axis.dilation;
  with_constant_step(axis.stride, [&](auto step) {
    for (int64_t i = 0; i < count; ++i) to[first + i] = from[i * step];
  });
  for (int64_t i = first + count; i < n; ++i) to[i] = outside;
}

// The lanes of a block of x: all, where there is one.
struct Block {
  int64_t plane;
  Span lanes;
};
inline Block block_at(const PoolingGeometry& g, int64_t block) {
  const int64_t per_plane = g.blocks_per_plane(), lane = block % per_plane * PoolingGeometry::kBlockLanes;
  return {block / per_plane, {lane, std::min(lane + PoolingGeometry::kBlockLanes, g.lanes)}};
}

template <typename T>
inline void clear_block(const PoolingGeometry& g, const Block& block, T* plane) {
  const int64_t positions = g.height.in * g.width.in;
  if (g.lanes == 1) {
    for (int64_t i = 0; i < positions; ++i) plane[i] = 0;
    return;
  }
  for (int64_t i = 0; i < positions; ++i) {
    for (int64_t lane = block.lanes.begin; lane < block.lanes.end; ++lane) plane[i * g.lanes + lane] = 0;
  }
}

}  // namespace mydev::kernels::MYDEV_ISA
