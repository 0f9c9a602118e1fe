// The loops of pooling_loops.h for one instruction set.
//
// Each works on tiles of results that a vector can run along: neighbours in a row where there is one lane, else the
// lanes of one position. Rows of results come tap by tap: what tap number t gives to each result of the tile is
// gathered into a buffer, then compared or added lane by lane. Buffers are whole vectors long, so that narrow images
// need no scalar tails.
#include "host_kernels/pooling_loops.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "host_kernels/isa/isa.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int64_t kTile = 512;        // results per tile, a multiple of kStep
constexpr int64_t kStep = 16;         // lanes that the compiler unrolls into vectors
constexpr int64_t kRowBuffer = 2048;  // elements of x that a row of averages sums up at a time
constexpr int64_t kKnownSpans = 16;   // taps whose spans are computed once

// Rounded up. Mostly by 1, which is worth a branch: a division costs more than the rest of a window.
int64_t divide_up(int64_t a, int64_t b) {
  return b == 1 ? a : (a + b - 1) / b;
}

// The input positions that result position `o` reads: taps of the kernel that lie inside, and what an average divides
// by.
struct Window {
  int64_t first;        // input position of the first tap inside
  int64_t taps;         // inside; 0 if none
  int64_t padded_taps;  // that count with count_include_pad
};

Window window_at(const PoolingAxis& axis, bool adaptive, int64_t o) {
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
Span span_of_tap(const PoolingAxis& axis, int64_t tap, Span of) {
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

int64_t whole_steps(int64_t n) {
  return (n + kStep - 1) / kStep * kStep;
}

// What a tap reads for each result of a tile, `outside` where it reads nothing; whole_steps(n) elements.
template <typename T>
void gather_tap(const T* row, const PoolingAxis& axis, int64_t tap, Span of, Span span, T outside, T* to) {
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

// best = max(best, from), lane by lane, noting where it came from. As on the CPU, a NaN always wins.
template <typename T>
inline void keep_greater(const T* from, const int32_t* columns, int32_t index, int64_t n, T* best, int32_t* indices) {
  for (int64_t i = 0; i < n; i += kStep) {
    for (int64_t j = i; j < i + kStep; ++j) {
      const T value = from[j];
      const bool take = (value > best[j]) | (value != value);
      best[j] = take ? value : best[j];
      indices[j] = take ? index + columns[j] : indices[j];
    }
  }
}

// Rows of maxima where there is one lane.
template <typename T>
void max_rows(const PoolingGeometry& g, const T* x, T* out, int64_t* indices, int64_t begin, int64_t end) {
  alignas(64) T best[kTile], values[kTile];
  alignas(64) int32_t best_index[kTile], columns[kTile], first_columns[kTile];
  const PoolingAxis &h = g.height, &w = g.width;
  for (int64_t tile = 0; tile < w.out; tile += kTile) {
    const Span of = {tile, std::min(tile + kTile, w.out)};
    const int64_t n = of.end - of.begin, lanes = whole_steps(n);
    const TapSpans spans(w, of);
    for (int64_t i = 0; i < lanes; ++i) {
      const int64_t start = (tile + i) * w.stride - w.padding;
      columns[i] = static_cast<int32_t>(start);
      first_columns[i] = static_cast<int32_t>(start < 0 ? start + divide_up(-start, w.dilation) * w.dilation : start);
    }
    for (int64_t row = begin; row < end; ++row) {
      const T* plane = x + row / h.out * h.in * w.in;
      const Window vertical = window_at(h, false, row % h.out);
      for (int64_t i = 0; i < lanes; ++i) {
        best[i] = -std::numeric_limits<T>::infinity();
        best_index[i] = static_cast<int32_t>(vertical.first * w.in) + first_columns[i];
      }
      for (int64_t tap_h = 0; tap_h < vertical.taps; ++tap_h) {
        const int64_t from_row = vertical.first + tap_h * h.dilation;
        for (int64_t tap = 0; tap < w.kernel; ++tap) {
          gather_tap(plane + from_row * w.in, w, tap, of, spans[tap], -std::numeric_limits<T>::infinity(), values);
          keep_greater(values, columns, static_cast<int32_t>(from_row * w.in + tap * w.dilation), lanes, best,
                       best_index);
        }
      }
      for (int64_t i = 0; i < n; ++i) out[row * w.out + tile + i] = best[i];
      for (int64_t i = 0; i < n; ++i) indices[row * w.out + tile + i] = best_index[i];
    }
  }
}

// Whether windows are 2 x 2, side by side, all of them inside: the commonest pooling there is.
bool is_halving(const PoolingAxis& axis) {
  return axis.kernel == 2 && axis.stride == 2 && axis.padding == 0 && axis.dilation == 1 && axis.out * 2 <= axis.in;
}

// Consecutive rows share a tile, so that narrow images fill vectors too. Branches would be mispredicted: maxima are
// random.
template <typename T>
void max_halving(const PoolingGeometry& g, const T* x, T* out, int64_t* indices, int64_t begin, int64_t end) {
  alignas(64) T quarters[4][kTile] = {};
  alignas(64) int32_t first_index[kTile] = {};
  const int64_t width = g.width.in, out_width = g.width.out;
  const int32_t steps[4] = {0, 1, static_cast<int32_t>(width), static_cast<int32_t>(width) + 1};
  for (int64_t row = begin, column = 0; row < end;) {
    int64_t n = 0;
    const int64_t to = row * out_width + column;
    while (row < end && n < kTile) {
      const int64_t first = row % g.height.out * 2 * width + 2 * column;
      const T* upper = x + row / g.height.out * g.height.in * width + first;
      const T* lower = upper + width;
      const int64_t count = std::min(out_width - column, kTile - n);
      for (int64_t o = 0; o < count; ++o) {
        quarters[0][n + o] = upper[2 * o];
        quarters[1][n + o] = upper[2 * o + 1];
        quarters[2][n + o] = lower[2 * o];
        quarters[3][n + o] = lower[2 * o + 1];
        first_index[n + o] = static_cast<int32_t>(first + 2 * o);
      }
      n += count;
      column += count;
      if (column == out_width) {
        column = 0;
        ++row;
      }
    }
    alignas(64) int32_t index[kTile];
    const int64_t lanes = whole_steps(n);
    for (int64_t i = 0; i < lanes; ++i) index[i] = first_index[i];
    for (int quarter = 1; quarter < 4; ++quarter) {
      // The first of equals wins, the last NaN wins: as the CPU, which goes through the four in this order.
      for (int64_t i = 0; i < lanes; i += kStep) {
        for (int64_t j = i; j < i + kStep; ++j) {
          const T value = quarters[quarter][j], best = quarters[0][j];
          const bool take = (value > best) | (value != value);
          quarters[0][j] = take ? value : best;
          index[j] = take ? first_index[j] + steps[quarter] : index[j];
        }
      }
    }
    for (int64_t i = 0; i < n; ++i) out[to + i] = quarters[0][i];
    for (int64_t i = 0; i < n; ++i) indices[to + i] = index[i];
  }
}

// Rows of maxima where the channels are lanes.
template <typename T>
void max_lanes(const PoolingGeometry& g, const T* x, T* out, int64_t* indices, int64_t begin, int64_t end) {
  alignas(64) T best[kTile];
  alignas(64) int32_t best_index[kTile];
  const PoolingAxis &h = g.height, &w = g.width;
  for (int64_t row = begin; row < end; ++row) {
    const T* plane = x + row / h.out * h.in * w.in * g.lanes;
    const Window vertical = window_at(h, false, row % h.out);
    for (int64_t o = 0; o < w.out; ++o) {
      const Window horizontal = window_at(w, false, o);
      for (int64_t lane = 0; lane < g.lanes; lane += kTile) {
        const int64_t n = std::min(kTile, g.lanes - lane);
        for (int64_t i = 0; i < n; ++i) {
          best[i] = -std::numeric_limits<T>::infinity();
          best_index[i] = static_cast<int32_t>(vertical.first * w.in + horizontal.first);
        }
        for (int64_t tap_h = 0; tap_h < vertical.taps; ++tap_h) {
          for (int64_t tap = 0; tap < horizontal.taps; ++tap) {
            const int64_t from = (vertical.first + tap_h * h.dilation) * w.in + horizontal.first + tap * w.dilation;
            const T* values = plane + from * g.lanes + lane;
            const int32_t index = static_cast<int32_t>(from);
            for (int64_t i = 0; i < n; ++i) {
              const bool take = (values[i] > best[i]) | (values[i] != values[i]);
              best[i] = take ? values[i] : best[i];
              best_index[i] = take ? index : best_index[i];
            }
          }
        }
        const int64_t to = (row * w.out + o) * g.lanes + lane;
        for (int64_t i = 0; i < n; ++i) out[to + i] = best[i];
        for (int64_t i = 0; i < n; ++i) indices[to + i] = best_index[i];
      }
    }
  }
}

template <typename T>
void max(const PoolingGeometry& g, const T* x, T* out, int64_t* indices, int64_t begin, int64_t end) {
  if (g.lanes == 1 && is_halving(g.height) && is_halving(g.width)) {
    max_halving(g, x, out, indices, begin, end);
  } else if (g.lanes == 1) {
    max_rows(g, x, out, indices, begin, end);
  } else {
    max_lanes(g, x, out, indices, begin, end);
  }
}

// The lanes of a block of x: all, where there is one.
struct Block {
  int64_t plane;
  Span lanes;
};
Block block_at(const PoolingGeometry& g, int64_t block) {
  const int64_t per_plane = g.blocks_per_plane(), lane = block % per_plane * PoolingGeometry::kBlockLanes;
  return {block / per_plane, {lane, std::min(lane + PoolingGeometry::kBlockLanes, g.lanes)}};
}

template <typename T>
void clear_block(const PoolingGeometry& g, const Block& block, T* plane) {
  const int64_t positions = g.height.in * g.width.in;
  if (g.lanes == 1) {
    for (int64_t i = 0; i < positions; ++i) plane[i] = 0;
    return;
  }
  for (int64_t i = 0; i < positions; ++i) {
    for (int64_t lane = block.lanes.begin; lane < block.lanes.end; ++lane) plane[i * g.lanes + lane] = 0;
  }
}

template <typename T>
void max_backward(const PoolingGeometry& g, const T* grad_out, const int64_t* indices, T* grad_x, int64_t begin,
                  int64_t end) {
  const int64_t out_positions = g.height.out * g.width.out;
  for (int64_t number = begin; number < end; ++number) {
    const Block block = block_at(g, number);
    T* plane = grad_x + block.plane * g.height.in * g.width.in * g.lanes;
    clear_block(g, block, plane);
    const int64_t first = block.plane * out_positions * g.lanes;
    for (int64_t o = 0; o < out_positions; ++o) {
      for (int64_t lane = block.lanes.begin; lane < block.lanes.end; ++lane) {
        const int64_t at = first + o * g.lanes + lane;
        plane[indices[at] * g.lanes + lane] += grad_out[at];
      }
    }
  }
}

template <typename T>
T divisor_of(const PoolingGeometry& g, const Window& vertical, const Window& horizontal) {
  if (g.divisor != 0) return static_cast<T>(g.divisor);
  return static_cast<T>(g.count_include_pad ? vertical.padded_taps * horizontal.padded_taps
                                            : vertical.taps * horizontal.taps);
}

// The sum of n elements, in as many chains as hide the latency of an addition.
template <typename T>
T sum_of(const T* from, int64_t n) {
  constexpr int64_t kChains = 32;
  T sum = 0;
  int64_t i = 0;
  if (n >= kChains) {
    alignas(64) T chains[kChains] = {};
    for (; i + kChains <= n; i += kChains) {
      for (int64_t c = 0; c < kChains; ++c) chains[c] += from[i + c];
    }
    for (int64_t c = 0; c < kChains / 2; ++c) chains[c] += chains[c + kChains / 2];
    for (int64_t c = 0; c < kChains / 4; ++c) chains[c] += chains[c + kChains / 4];
    for (int64_t c = 0; c < kChains / 4; ++c) sum += chains[c];
  }
  for (; i < n; ++i) sum += from[i];
  return sum;
}

// One average of a window, whatever its size.
template <typename T>
T average_of_window(const PoolingGeometry& g, const T* plane, const Window& vertical, const Window& horizontal) {
  if (vertical.taps == 0 || horizontal.taps == 0) return 0;
  T sum = 0;
  const T* from = plane + vertical.first * g.width.in + horizontal.first;
  if (horizontal.taps == g.width.in) {
    sum = sum_of(from, vertical.taps * g.width.in);
  } else {
    for (int64_t tap = 0; tap < vertical.taps; ++tap) sum += sum_of(from + tap * g.width.in, horizontal.taps);
  }
  return sum / divisor_of<T>(g, vertical, horizontal);
}

// sums[n] = the sum of a window's rows, column by column
template <typename T>
void sum_rows(const T* from, int64_t row_stride, int64_t rows, int64_t n, T* sums) {
  for (int64_t i = 0; i < n; ++i) sums[i] = from[i];
  for (int64_t row = 1; row < rows; ++row) {
    for (int64_t i = 0; i < n; ++i) sums[i] += from[row * row_stride + i];
  }
}

// Rows of averages where there is one lane: columns first, then along the row.
template <typename T>
void average_rows(const PoolingGeometry& g, const T* x, T* out, int64_t begin, int64_t end) {
  alignas(64) T sums[kRowBuffer], values[kTile], totals[kTile], counts[kTile];
  const PoolingAxis &h = g.height, &w = g.width;
  const int64_t tile_size = std::min(kTile, (kRowBuffer - w.kernel) / w.stride);
  for (int64_t tile = 0; tile < w.out; tile += tile_size) {
    const Span of = {tile, std::min(tile + tile_size, w.out)};
    const int64_t lanes = whole_steps(of.end - of.begin);
    const TapSpans spans(w, of);
    const int64_t first = std::max<int64_t>(0, of.begin * w.stride - w.padding);
    const int64_t last = std::min(w.in, (of.end - 1) * w.stride - w.padding + w.kernel);
    for (int64_t o = of.begin; o < of.end; ++o) {
      const Window horizontal = window_at(w, false, o);
      const int64_t count = g.count_include_pad ? horizontal.padded_taps : horizontal.taps;
      counts[o - tile] = static_cast<T>(horizontal.taps == 0 || g.divisor != 0 ? 1 : count);  // of nothing: 0 / 1
    }
    for (int64_t row = begin; row < end; ++row) {
      const T* plane = x + row / h.out * h.in * w.in;
      const Window vertical = window_at(h, false, row % h.out);
      for (int64_t i = 0; i < lanes; ++i) totals[i] = 0;
      if (vertical.taps > 0) {
        sum_rows(plane + vertical.first * w.in + first, w.in, vertical.taps, last - first, sums);
        for (int64_t tap = 0; tap < w.kernel; ++tap) {
          gather_tap(sums - first, w, tap, of, spans[tap], T(0), values);
          for (int64_t i = 0; i < lanes; ++i) totals[i] += values[i];
        }
      }
      const int64_t height = g.count_include_pad ? vertical.padded_taps : vertical.taps;
      const T factor = static_cast<T>(g.divisor != 0 ? g.divisor : vertical.taps == 0 ? 1 : height);
      for (int64_t o = of.begin; o < of.end; ++o) out[row * w.out + o] = totals[o - tile] / (factor * counts[o - tile]);
    }
  }
}

// One row of adaptive averages where there is one lane and a row of x fits the buffer.
template <typename T>
void adaptive_row(const PoolingGeometry& g, const T* plane, const Window& vertical, T* out_row) {
  alignas(64) T sums[kRowBuffer];
  sum_rows(plane + vertical.first * g.width.in, g.width.in, vertical.taps, g.width.in, sums);
  for (int64_t o = 0; o < g.width.out; ++o) {
    const Window horizontal = window_at(g.width, true, o);
    out_row[o] = sum_of(sums + horizontal.first, horizontal.taps) / divisor_of<T>(g, vertical, horizontal);
  }
}

template <typename T>
void average_lanes(const PoolingGeometry& g, const T* plane, const Window& vertical, const Window& horizontal, T* out) {
  const bool empty = vertical.taps == 0 || horizontal.taps == 0;
  const T factor = empty ? 0 : divisor_of<T>(g, vertical, horizontal);
  for (int64_t lane = 0; lane < g.lanes; lane += kTile) {
    alignas(64) T sums[kTile] = {};
    const int64_t n = std::min(kTile, g.lanes - lane);
    for (int64_t tap_h = 0; tap_h < vertical.taps; ++tap_h) {
      const T* from = plane + ((vertical.first + tap_h) * g.width.in + horizontal.first) * g.lanes + lane;
      for (int64_t tap = 0; tap < horizontal.taps; ++tap) {
        for (int64_t i = 0; i < n; ++i) sums[i] += from[tap * g.lanes + i];
      }
    }
    for (int64_t i = 0; i < n; ++i) out[lane + i] = empty ? 0 : sums[i] / factor;
  }
}

template <typename T>
void average(const PoolingGeometry& g, const T* x, T* out, int64_t begin, int64_t end) {
  const PoolingAxis &h = g.height, &w = g.width;
  if (g.lanes == 1 && !g.adaptive && w.kernel + w.stride <= kRowBuffer) {
    average_rows(g, x, out, begin, end);
    return;
  }
  for (int64_t row = begin; row < end; ++row) {
    const T* plane = x + row / h.out * h.in * w.in * g.lanes;
    const Window vertical = window_at(h, g.adaptive, row % h.out);
    T* out_row = out + row * w.out * g.lanes;
    if (g.lanes == 1 && g.adaptive && w.out > 1 && w.in <= kRowBuffer) {
      adaptive_row(g, plane, vertical, out_row);
      continue;
    }
    for (int64_t o = 0; o < w.out; ++o) {
      const Window horizontal = window_at(w, g.adaptive, o);
      if (g.lanes == 1) {
        out_row[o] = average_of_window(g, plane, vertical, horizontal);
      } else {
        average_lanes(g, plane, vertical, horizontal, out_row + o * g.lanes);
      }
    }
  }
}

// One row of the gradient of averages where there is one lane: along the row first, then to all rows of the window.
template <typename T>
void spread_row(const PoolingGeometry& g, const T* grad_row, const Window& vertical, T* plane) {
  alignas(64) T shares[kRowBuffer];
  const PoolingAxis& w = g.width;
  for (int64_t i = 0; i < w.in; ++i) shares[i] = 0;
  for (int64_t o = 0; o < w.out; ++o) {
    const Window horizontal = window_at(w, g.adaptive, o);
    if (horizontal.taps == 0) continue;
    const T share = grad_row[o] / divisor_of<T>(g, vertical, horizontal);
    for (int64_t tap = 0; tap < horizontal.taps; ++tap) shares[horizontal.first + tap] += share;
  }
  for (int64_t tap = 0; tap < vertical.taps; ++tap) {
    T* to = plane + (vertical.first + tap) * w.in;
    for (int64_t i = 0; i < w.in; ++i) to[i] += shares[i];
  }
}

template <typename T>
void average_backward(const PoolingGeometry& g, const T* grad_out, T* grad_x, int64_t begin, int64_t end) {
  const PoolingAxis &h = g.height, &w = g.width;
  for (int64_t number = begin; number < end; ++number) {
    const Block block = block_at(g, number);
    T* plane = grad_x + block.plane * h.in * w.in * g.lanes;
    clear_block(g, block, plane);
    const T* grad_plane = grad_out + block.plane * h.out * w.out * g.lanes;
    for (int64_t oh = 0; oh < h.out; ++oh) {
      const Window vertical = window_at(h, g.adaptive, oh);
      if (vertical.taps == 0) continue;
      if (g.lanes == 1 && w.in <= kRowBuffer) {
        spread_row(g, grad_plane + oh * w.out, vertical, plane);
        continue;
      }
      for (int64_t ow = 0; ow < w.out; ++ow) {
        const Window horizontal = window_at(w, g.adaptive, ow);
        if (horizontal.taps == 0) continue;
        const T divisor = divisor_of<T>(g, vertical, horizontal);
        const T* from = grad_plane + (oh * w.out + ow) * g.lanes;
        for (int64_t tap_h = 0; tap_h < vertical.taps; ++tap_h) {
          T* to = plane + ((vertical.first + tap_h) * w.in + horizontal.first) * g.lanes;
          for (int64_t tap = 0; tap < horizontal.taps; ++tap) {
            for (int64_t lane = block.lanes.begin; lane < block.lanes.end; ++lane) {
              to[tap * g.lanes + lane] += from[lane] / divisor;
            }
          }
        }
      }
    }
  }
}

template <typename T>
constexpr PoolingFunctions<T> functions() {
  return {max<T>, max_backward<T>, average<T>, average_backward<T>};
}

}  // namespace

const PoolingLoops pooling_loops = {functions<float>(), functions<double>()};

}  // namespace mydev::kernels::MYDEV_ISA
