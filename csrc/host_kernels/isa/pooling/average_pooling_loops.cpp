// The loops of pooling_loops.h for averages, for one instruction set.
#include <algorithm>

#include "host_kernels/isa/pooling/pooling_window.h"
#include "host_kernels/pooling_loops.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int64_t kRowBuffer = 2048;  // elements of x that a row of averages sums up at a time

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

}  // namespace

const AveragePoolingLoops average_pooling_loops = {{average<float>, average_backward<float>},
                                                   {average<double>, average_backward<double>}};

}  // namespace mydev::kernels::MYDEV_ISA
