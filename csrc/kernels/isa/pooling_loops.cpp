// The loops of pooling_loops.h for one instruction set.
//
// Each works on tiles of results that a vector can run along: neighbours in a row where there is one lane, else the
// lanes of one position. So the innermost loop is always "for each of n elements of the tile", with the step of its
// input: 1, 2 (compiled as constants, for shuffles instead of gathers), or any.
#include "kernels/pooling_loops.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/isa/isa.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int64_t kTile = 512;

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

// Calls body(n, step) with `step` a constant where that helps.
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

template <typename T, typename Step>
inline void keep_greater(const T* from, Step step, int64_t n, int32_t index, int32_t index_step, T* best,
                         int32_t* indices) {
  for (int64_t i = 0; i < n; ++i) {
    const T value = from[i * step];
    const bool take = (value > best[i]) | (value != value);  // as the CPU: a NaN always wins
    best[i] = take ? value : best[i];
    indices[i] = take ? index + static_cast<int32_t>(i) * index_step : indices[i];
  }
}

template <typename T>
void max(const PoolingGeometry& g, const T* x, T* out, int64_t* indices, int64_t begin, int64_t end) {
  alignas(64) T best[kTile];
  alignas(64) int32_t best_index[kTile];
  const PoolingAxis &h = g.height, &w = g.width;
  const int64_t row_stride = w.in * g.lanes;
  for (int64_t row = begin; row < end; ++row) {
    const T* plane = x + row / h.out * h.in * row_stride;
    const Window vertical = window_at(h, false, row % h.out);
    T* out_row = out + row * w.out * g.lanes;
    int64_t* index_row = indices + row * w.out * g.lanes;
    const int64_t first_row_index = vertical.first * w.in;
    if (g.lanes == 1) {
      for (int64_t tile = 0; tile < w.out; tile += kTile) {
        const Span of = {tile, std::min(tile + kTile, w.out)};
        for (int64_t o = of.begin; o < of.end; ++o) {
          const int64_t start = o * w.stride - w.padding;
          const int64_t skipped = start < 0 ? divide_up(-start, w.dilation) : 0;
          best[o - tile] = -std::numeric_limits<T>::infinity();
          best_index[o - tile] = static_cast<int32_t>(first_row_index + start + skipped * w.dilation);
        }
        for (int64_t tap_h = 0; tap_h < vertical.taps; ++tap_h) {
          const int64_t from_row = vertical.first + tap_h * h.dilation;
          for (int64_t tap = 0; tap < w.kernel; ++tap) {
            const Span span = span_of_tap(w, tap, of);
            if (span.begin >= span.end) continue;
            const int64_t from = from_row * w.in + span.begin * w.stride - w.padding + tap * w.dilation;
            with_constant_step(w.stride, [&](auto step) {
              keep_greater(plane + from, step, span.end - span.begin, static_cast<int32_t>(from),
                           static_cast<int32_t>(w.stride), best + (span.begin - tile),
                           best_index + (span.begin - tile));
            });
          }
        }
        for (int64_t o = of.begin; o < of.end; ++o) {
          out_row[o] = best[o - tile];
          index_row[o] = best_index[o - tile];
        }
      }
      continue;
    }
    for (int64_t o = 0; o < w.out; ++o) {
      const Window horizontal = window_at(w, false, o);
      const int32_t first_index = static_cast<int32_t>(first_row_index + horizontal.first);
      for (int64_t lane = 0; lane < g.lanes; lane += kTile) {
        const int64_t n = std::min(kTile, g.lanes - lane);
        for (int64_t i = 0; i < n; ++i) {
          best[i] = -std::numeric_limits<T>::infinity();
          best_index[i] = first_index;
        }
        for (int64_t tap_h = 0; tap_h < vertical.taps; ++tap_h) {
          for (int64_t tap = 0; tap < horizontal.taps; ++tap) {
            const int64_t from = (vertical.first + tap_h * h.dilation) * w.in + horizontal.first + tap * w.dilation;
            keep_greater(plane + from * g.lanes + lane, std::integral_constant<int64_t, 1>(), n,
                         static_cast<int32_t>(from), 0, best, best_index);
          }
        }
        for (int64_t i = 0; i < n; ++i) {
          out_row[o * g.lanes + lane + i] = best[i];
          index_row[o * g.lanes + lane + i] = best_index[i];
        }
      }
    }
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

template <typename T, typename Step>
inline void add_strided(const T* from, Step step, int64_t n, T* sums) {
  for (int64_t i = 0; i < n; ++i) sums[i] += from[i * step];
}

// One row of averages where windows are narrow: tap by tap along the row.
template <typename T>
void average_row_by_taps(const PoolingGeometry& g, const T* plane, const Window& vertical, T* out_row) {
  const PoolingAxis& w = g.width;
  for (int64_t tile = 0; tile < w.out; tile += kTile) {
    alignas(64) T sums[kTile] = {};
    const Span of = {tile, std::min(tile + kTile, w.out)};
    for (int64_t tap_h = 0; tap_h < vertical.taps; ++tap_h) {
      const T* from_row = plane + (vertical.first + tap_h) * w.in;
      for (int64_t tap = 0; tap < w.kernel; ++tap) {
        const Span span = span_of_tap(w, tap, of);
        if (span.begin >= span.end) continue;
        with_constant_step(w.stride, [&](auto step) {
          add_strided(from_row + span.begin * w.stride - w.padding + tap, step, span.end - span.begin,
                      sums + (span.begin - tile));
        });
      }
    }
    for (int64_t o = of.begin; o < of.end; ++o) {
      const Window horizontal = window_at(w, false, o);
      const bool empty = vertical.taps == 0 || horizontal.taps == 0;
      out_row[o] = empty ? 0 : sums[o - tile] / divisor_of<T>(g, vertical, horizontal);
    }
  }
}

// The sum of n elements, in as many chains as hide the latency of an addition.
template <typename T>
T sum_of(const T* from, int64_t n) {
  constexpr int64_t kChains = 32;
  T chains[kChains] = {};
  int64_t i = 0;
  for (; i + kChains <= n; i += kChains) {
    for (int64_t c = 0; c < kChains; ++c) chains[c] += from[i + c];
  }
  T sum = 0;
  for (; i < n; ++i) sum += from[i];
  for (int64_t c = 0; c < kChains; ++c) sum += chains[c];
  return sum;
}

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
        add_strided(from + tap * g.lanes, std::integral_constant<int64_t, 1>(), n, sums);
      }
    }
    for (int64_t i = 0; i < n; ++i) out[lane + i] = empty ? 0 : sums[i] / factor;
  }
}

template <typename T>
void average(const PoolingGeometry& g, const T* x, T* out, int64_t begin, int64_t end) {
  const PoolingAxis &h = g.height, &w = g.width;
  for (int64_t row = begin; row < end; ++row) {
    const T* plane = x + row / h.out * h.in * w.in * g.lanes;
    const Window vertical = window_at(h, g.adaptive, row % h.out);
    T* out_row = out + row * w.out * g.lanes;
    if (g.lanes == 1 && !g.adaptive && w.out >= 4) {
      average_row_by_taps(g, plane, vertical, out_row);
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
      for (int64_t ow = 0; ow < w.out; ++ow) {
        const Window horizontal = window_at(w, g.adaptive, ow);
        if (horizontal.taps == 0) continue;
        const T divisor = divisor_of<T>(g, vertical, horizontal);
        const T* from = grad_plane + (oh * w.out + ow) * g.lanes;
        for (int64_t tap_h = 0; tap_h < vertical.taps; ++tap_h) {
          T* to = plane + ((vertical.first + tap_h) * w.in + horizontal.first) * g.lanes;
          if (g.lanes == 1) {
            const T share = from[0] / divisor;
            for (int64_t tap = 0; tap < horizontal.taps; ++tap) to[tap] += share;
            continue;
          }
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
