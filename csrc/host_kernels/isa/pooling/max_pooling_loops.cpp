// The loops of pooling_loops.h for maxima, for one instruction set.
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "host_kernels/isa/pooling/pooling_window.h"
#include "host_kernels/isa/simd/simd.h"
#include "host_kernels/pooling_loops.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

// The type of indices into a plane: a vector has one for each lane of Vec<T>.
template <typename T>
using Index = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

// Keeps the greater value, and its index. The first of equals stays, and a NaN always wins, as on the CPU. Branches
// would be mispredicted: maxima are random.
template <typename T>
inline void keep_greater(Vec<T> value, Vec<Index<T>> index, Vec<T>& best, Vec<Index<T>>& best_index) {
  const auto take = (value > best) | (value != value);
  best = take ? value : best;
  best_index = take ? index : best_index;
}

template <typename T>
inline void store_indices(int64_t* to, Vec<Index<T>> indices) {
  if constexpr (sizeof(T) == 8) {
    store(to, indices);
  } else {
    Half<int32_t> halves[2];
    std::memcpy(halves, &indices, sizeof(indices));
    store(to, __builtin_convertvector(halves[0], I64));
    store(to + kLanes<int64_t>, __builtin_convertvector(halves[1], I64));
  }
}

// The first `lanes` lanes, fewer than all.
template <typename T>
inline void store_some(T* out, int64_t* indices, Vec<T> best, Vec<Index<T>> best_index, int64_t lanes) {
  alignas(64) int64_t all[kLanes<T>];
  store_indices<T>(all, best_index);
  std::copy_n(all, lanes, indices);
  store_partial(out, best, lanes);
}

// Rows of maxima where there is one lane.
template <typename T>
void max_rows(const PoolingGeometry& g, const T* x, T* out, int64_t* indices, int64_t begin, int64_t end) {
  alignas(64) T best[kTile], values[kTile];
  alignas(64) Index<T> best_index[kTile], columns[kTile], first_columns[kTile];
  const PoolingAxis &h = g.height, &w = g.width;
  for (int64_t tile = 0; tile < w.out; tile += kTile) {
    const Span of = {tile, std::min(tile + kTile, w.out)};
    const int64_t n = of.end - of.begin, lanes = whole_steps(n);
    const TapSpans spans(w, of);
    for (int64_t i = 0; i < lanes; ++i) {
      const int64_t start = (tile + i) * w.stride - w.padding;
      columns[i] = static_cast<Index<T>>(start);
      first_columns[i] = static_cast<Index<T>>(start < 0 ? start + divide_up(-start, w.dilation) * w.dilation : start);
    }
    for (int64_t row = begin; row < end; ++row) {
      const T* plane = x + row / h.out * h.in * w.in;
      const Window vertical = window_at(h, false, row % h.out);
      for (int64_t i = 0; i < lanes; ++i) {
        best[i] = -std::numeric_limits<T>::infinity();
        best_index[i] = static_cast<Index<T>>(vertical.first * w.in) + first_columns[i];
      }
      for (int64_t tap_h = 0; tap_h < vertical.taps; ++tap_h) {
        const int64_t from_row = vertical.first + tap_h * h.dilation;
        for (int64_t tap = 0; tap < w.kernel; ++tap) {
          gather_tap(plane + from_row * w.in, w, tap, of, spans[tap], -std::numeric_limits<T>::infinity(), values);
          const auto first = splat(static_cast<Index<T>>(from_row * w.in + tap * w.dilation));
          for (int64_t i = 0; i < lanes; i += kLanes<T>) {
            Vec<T> greatest = load(best + i);
            Vec<Index<T>> index = load(best_index + i);
            keep_greater<T>(load(values + i), first + load(columns + i), greatest, index);
            store(best + i, greatest);
            store(best_index + i, index);
          }
        }
      }
      for (int64_t i = 0; i < n; ++i) out[row * w.out + tile + i] = best[i];
      for (int64_t i = 0; i < n; ++i) indices[row * w.out + tile + i] = best_index[i];
    }
  }
}

// The rows of x that a window reads, each split by the stride so that adjacent results read adjacent columns. Columns
// outside are -inf. Rows that one window has split are kept for the next.
template <typename T>
class SplitRows {
 public:
  static constexpr int64_t kMostRows = 8, kMostTaps = 16, kMostStride = 4;

  // True if windows are not dilated, and few enough.
  static bool holds(const PoolingAxis& height, const PoolingAxis& width) {
    return height.dilation == 1 && width.dilation == 1 && height.kernel <= kMostRows && width.kernel <= kMostTaps &&
           width.stride <= kMostStride && whole_steps(width.out) <= kTile &&
           columns_of_part(width) * width.stride <= kColumns;
  }

  explicit SplitRows(const PoolingAxis& width) : width_(width), part_(columns_of_part(width)) {
    std::fill_n(held_, kMostRows, -1);
    for (T(&row)[kColumns] : columns_) {
      std::fill_n(row, part_ * width.stride, -std::numeric_limits<T>::infinity());
    }
    for (int64_t tap = 0; tap < width.kernel; ++tap) offsets_[tap] = tap % width.stride * part_ + tap / width.stride;
    for (int64_t shift = 0; shift < width.stride; ++shift) {
      const int64_t first = divide_up(std::max<int64_t>(width.padding - shift, 0), width.stride);
      const int64_t end = divide_up(std::max<int64_t>(width.in + width.padding - shift, 0), width.stride);
      inside_[shift] = {first, std::min(end, part_)};
    }
  }

  // Row `number` of all, which lies at `row`. The tap's columns begin at offset_of(tap).
  const T* split(int64_t number, const T* row) {
    const int64_t slot = number % kMostRows;
    if (held_[slot] == number) return columns_[slot];
    held_[slot] = number;
    with_constant_step(width_.stride, [&](auto step) {
      for (int64_t shift = 0; shift < step; ++shift) {
        const auto [first, end] = inside_[shift];
        T* to = columns_[slot] + shift * part_;
        const T* from = row + shift - width_.padding;
        for (int64_t i = first; i < end; ++i) to[i] = from[i * step];
      }
    });
    return columns_[slot];
  }
  int64_t offset_of(int64_t tap) const { return offsets_[tap]; }

 private:
  static constexpr int64_t kColumns = 1024;

  static int64_t columns_of_part(const PoolingAxis& width) {
    return whole_steps(width.out) + (width.kernel - 1) / width.stride;
  }

  const PoolingAxis& width_;
  int64_t part_;
  int64_t offsets_[kMostTaps];
  Span inside_[kMostStride];  // columns of a part that are elements of the row
  int64_t held_[kMostRows];   // numbers of rows
  alignas(64) T columns_[kMostRows][kColumns];
};

// Rows of maxima, if there is one lane and SplitRows holds the rows that a window reads.
template <typename T>
void max_split_rows(const PoolingGeometry& g, const T* x, T* out, int64_t* indices, int64_t begin, int64_t end) {
  constexpr int64_t n = kLanes<T>;
  const PoolingAxis &h = g.height, &w = g.width;
  SplitRows<T> rows(w);
  alignas(64) Index<T> columns[kTile], first_columns[kTile];
  for (int64_t i = 0; i < whole_steps(w.out); ++i) {
    columns[i] = static_cast<Index<T>>(i * w.stride - w.padding);
    first_columns[i] = std::max<Index<T>>(columns[i], 0);
  }
  for (int64_t row = begin; row < end; ++row) {
    const Window vertical = window_at(h, false, row % h.out);
    const int64_t first_row = row / h.out * h.in + vertical.first;
    const T* taps[SplitRows<T>::kMostRows];
    for (int64_t tap = 0; tap < vertical.taps; ++tap) {
      taps[tap] = rows.split(first_row + tap, x + (first_row + tap) * w.in);
    }
    for (int64_t i = 0; i < w.out; i += n) {
      const auto row_index = splat(static_cast<Index<T>>(vertical.first * w.in));
      Vec<T> best = splat(-std::numeric_limits<T>::infinity());
      Vec<Index<T>> best_index = row_index + load(first_columns + i);
      Vec<Index<T>> index_of_row = row_index + load(columns + i);
      for (int64_t tap_h = 0; tap_h < vertical.taps; ++tap_h) {
        Vec<Index<T>> index = index_of_row;
        for (int64_t tap = 0; tap < w.kernel; ++tap) {
          keep_greater<T>(load(taps[tap_h] + rows.offset_of(tap) + i), index, best, best_index);
          index += 1;
        }
        index_of_row += static_cast<Index<T>>(w.in);
      }
      const int64_t to = row * w.out + i;
      if (w.out - i >= n) {
        store(out + to, best);
        store_indices<T>(indices + to, best_index);
      } else {
        store_some<T>(out + to, indices + to, best, best_index, w.out - i);
      }
    }
  }
}

// Windows of 2 x 2, the commonest pooling there is. Consecutive rows share a tile, so that narrow images fill vectors
// too.
template <typename T>
void max_halving(const PoolingGeometry& g, const T* x, T* out, int64_t* indices, int64_t begin, int64_t end) {
  alignas(64) T quarters[4][kTile] = {};
  alignas(64) Index<T> first_index[kTile] = {};
  const int64_t width = g.width.in, out_width = g.width.out;
  const Index<T> steps[4] = {0, 1, static_cast<Index<T>>(width), static_cast<Index<T>>(width + 1)};
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
        first_index[n + o] = static_cast<Index<T>>(first + 2 * o);
      }
      n += count;
      column += count;
      if (column == out_width) {
        column = 0;
        ++row;
      }
    }
    alignas(64) Index<T> indices_of_tile[kTile];
    for (int64_t i = 0; i < n; i += kLanes<T>) {
      const Vec<Index<T>> first = load(first_index + i);
      Vec<T> best = load(quarters[0] + i);
      Vec<Index<T>> index = first;
      for (int quarter = 1; quarter < 4; ++quarter) {
        keep_greater<T>(load(quarters[quarter] + i), first + steps[quarter], best, index);
      }
      store(quarters[0] + i, best);
      store(indices_of_tile + i, index);
    }
    for (int64_t i = 0; i < n; ++i) out[to + i] = quarters[0][i];
    for (int64_t i = 0; i < n; ++i) indices[to + i] = indices_of_tile[i];
  }
}

// The maxima of one window, for lanes of kVectors vectors, which begin at `plane`; of the only one, the first `lanes`
// lanes unless that is 0.
template <typename T, int kVectors>
inline void max_of_window(const PoolingGeometry& g, const T* plane, const Window& vertical, const Window& horizontal,
                          int64_t lanes, T* out, int64_t* indices) {
  Vec<T> best[kVectors];
  Vec<Index<T>> best_index[kVectors];
  const int64_t first = vertical.first * g.width.in + horizontal.first;
  for (int v = 0; v < kVectors; ++v) {
    best[v] = splat(-std::numeric_limits<T>::infinity());
    best_index[v] = splat(static_cast<Index<T>>(first));
  }
  for (int64_t tap_h = 0; tap_h < vertical.taps; ++tap_h) {
    for (int64_t tap = 0; tap < horizontal.taps; ++tap) {
      const int64_t at = first + tap_h * g.height.dilation * g.width.in + tap * g.width.dilation;
      const T* from = plane + at * g.lanes;
      const auto index = splat(static_cast<Index<T>>(at));
      for (int v = 0; v < kVectors; ++v) {
        const Vec<T> value = lanes == 0 ? load(from + v * kLanes<T>) : load_partial(from, lanes);
        keep_greater<T>(value, index, best[v], best_index[v]);
      }
    }
  }
  if (lanes != 0) return store_some<T>(out, indices, best[0], best_index[0], lanes);
  for (int v = 0; v < kVectors; ++v) {
    store(out + v * kLanes<T>, best[v]);
    store_indices<T>(indices + v * kLanes<T>, best_index[v]);
  }
}

// Rows of maxima where the channels are lanes.
template <typename T>
void max_lanes(const PoolingGeometry& g, const T* x, T* out, int64_t* indices, int64_t begin, int64_t end) {
  constexpr int64_t n = kLanes<T>;
  const PoolingAxis &h = g.height, &w = g.width;
  for (int64_t row = begin; row < end; ++row) {
    const T* plane = x + row / h.out * h.in * w.in * g.lanes;
    const Window vertical = window_at(h, false, row % h.out);
    for (int64_t o = 0; o < w.out; ++o) {
      const Window horizontal = window_at(w, false, o);
      const int64_t to = (row * w.out + o) * g.lanes;
      int64_t lane = 0;
      for (; lane + 4 * n <= g.lanes; lane += 4 * n) {
        max_of_window<T, 4>(g, plane + lane, vertical, horizontal, 0, out + to + lane, indices + to + lane);
      }
      for (; lane < g.lanes; lane += n) {
        const int64_t left = g.lanes - lane;
        max_of_window<T, 1>(g, plane + lane, vertical, horizontal, left < n ? left : 0, out + to + lane,
                            indices + to + lane);
      }
    }
  }
}

template <typename T>
void max(const PoolingGeometry& g, const T* x, T* out, int64_t* indices, int64_t begin, int64_t end) {
  if (g.lanes == 1 && g.height.is_halved() && g.width.is_halved()) {
    max_halving(g, x, out, indices, begin, end);
  } else if (g.lanes == 1 && SplitRows<T>::holds(g.height, g.width)) {
    max_split_rows(g, x, out, indices, begin, end);
  } else if (g.lanes == 1) {
    max_rows(g, x, out, indices, begin, end);
  } else {
    max_lanes(g, x, out, indices, begin, end);
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

}  // namespace

const MaxPoolingLoops max_pooling_loops = {{max<float>, max_backward<float>}, {max<double>, max_backward<double>}};

}  // namespace mydev::kernels::MYDEV_ISA
