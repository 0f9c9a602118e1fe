// The loops of depthwise_loops.h for one instruction set.
//
// Where a window lies inside the plane, a row of results is summed in registers. Rows at the borders go tap by tap over
// the part of the row where the tap lies inside, columns at the borders of other rows result by result.
#include "host_kernels/depthwise_loops.h"

#include <algorithm>

#include "host_kernels/isa/simd.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int kTaps = 3;  // along each axis

// Positions of the result.
struct Range {
  int64_t begin, end;
};
constexpr Range kNone = {0, 0};

// Those whose taps [first, last] lie inside.
Range inside(const DepthwiseAxis& axis, int64_t first, int64_t last) {
  const int64_t before = axis.padding - first, reach = axis.in - 1 + axis.padding - last;
  const int64_t begin = before > 0 ? std::min((before + axis.stride - 1) / axis.stride, axis.out) : 0;
  const int64_t end = reach >= 0 ? std::min(reach / axis.stride + 1, axis.out) : 0;
  return {begin, std::max(begin, end)};
}

// Adds to columns of row oh, tap by tap; `valid` are the columns whose tap lies inside, for each.
void add_taps(const DepthwiseGeometry& geometry, const Range (&valid)[kTaps], const float* x, const float* weights,
              int64_t oh, Range columns, float* out) {
  if (columns.begin == columns.end) return;
  const DepthwiseAxis &height = geometry.height, &width = geometry.width;
  for (int64_t r = 0; r < kTaps; ++r) {
    const int64_t ih = oh * height.stride - height.padding + r;
    if (ih < 0 || ih >= height.in) continue;
    for (int64_t c = 0; c < kTaps; ++c) {
      const int64_t begin = std::max(valid[c].begin, columns.begin), end = std::min(valid[c].end, columns.end);
      const float weight = weights[r * kTaps + c];
      const float* from = x + ih * width.in - width.padding + c;
      const int64_t stride = width.stride;
#pragma GCC ivdep
      for (int64_t ow = begin; ow < end; ++ow) out[ow] += weight * from[ow * stride];
    }
  }
}

// The result at column ow, whose window's rows begin at `rows` and lie inside, but not all of its columns.
float sum_cut_window(const DepthwiseAxis& width, const float* rows, const float* weights, float bias, int64_t ow) {
  const int64_t iw = ow * width.stride - width.padding;
  const int64_t begin = std::max<int64_t>(-iw, 0), end = std::min<int64_t>(width.in - iw, kTaps);
  float sum = bias;
  for (int64_t r = 0; r < kTaps; ++r) {
    for (int64_t c = begin; c < end; ++c) sum += weights[r * kTaps + c] * rows[r * width.in + iw + c];
  }
  return sum;
}

// Results side by side, of windows side by side. The last vector overlaps the one before.
void sum_dense_windows(const float* top_left, int64_t row, const float* weights, float bias, float* out,
                       int64_t count) {
  constexpr int64_t n = kLanes<float>;
  F32 taps[kTaps * kTaps];
  for (int i = 0; i < kTaps * kTaps; ++i) taps[i] = splat(weights[i]);
  const auto sum = [&](int64_t i, auto load_lanes) {
    F32 result = splat(bias);
    for (int r = 0; r < kTaps; ++r) {
      for (int c = 0; c < kTaps; ++c) result = fma(taps[r * kTaps + c], load_lanes(top_left + r * row + i + c), result);
    }
    return result;
  };
  const auto whole = [](const float* p) { return load(p); };
  if (count < n) {
    store_partial(out, sum(0, [count](const float* p) { return load_partial(p, count); }), count);
    return;
  }
  for (int64_t i = 0; i + n <= count; i += n) store(out + i, sum(i, whole));
  store(out + count - n, sum(count - n, whole));
}

template <int kStride>
void sum_windows(const float* __restrict top_left, int64_t row, const float* weights, float bias, float* __restrict out,
                 int64_t count) {
  float taps[kTaps * kTaps];
  for (int i = 0; i < kTaps * kTaps; ++i) taps[i] = weights[i];
  for (int64_t i = 0; i < count; ++i) {
    float sum = bias;
    for (int r = 0; r < kTaps; ++r) {
      for (int c = 0; c < kTaps; ++c) sum += taps[r * kTaps + c] * top_left[r * row + i * kStride + c];
    }
    out[i] = sum;
  }
}

void compute_planes(const DepthwiseGeometry& geometry, const float* x, const float* weights, const float* bias,
                    float* out, int64_t begin, int64_t end) {
  const DepthwiseAxis &height = geometry.height, &width = geometry.width;
  const Range rows = inside(height, 0, kTaps - 1), columns = inside(width, 0, kTaps - 1);
  const Range valid[kTaps] = {inside(width, 0, 0), inside(width, 1, 1), inside(width, 2, 2)};
  for (int64_t plane = begin; plane < end; ++plane) {
    const int64_t channel = plane % geometry.out_channels;
    const float* window = weights + channel * kTaps * kTaps;
    const float* source = x + plane / geometry.multiplier * height.in * width.in;
    const float start = bias != nullptr ? bias[channel] : 0.0F;
    for (int64_t oh = 0; oh < height.out; ++oh) {
      float* row = out + (plane * height.out + oh) * width.out;
      const Range whole = oh >= rows.begin && oh < rows.end ? columns : kNone;
      if (whole.begin == whole.end) {
        std::fill_n(row, width.out, start);
        add_taps(geometry, valid, source, window, oh, {0, width.out}, row);
        continue;
      }
      const int64_t iw = whole.begin * width.stride - width.padding;
      const float* rows_of_x = source + (oh * height.stride - height.padding) * width.in;
      const auto sum = width.stride == 1 ? sum_dense_windows : sum_windows<2>;
      sum(rows_of_x + iw, width.in, window, start, row + whole.begin, whole.end - whole.begin);
      for (int64_t ow = 0; ow < whole.begin; ++ow) row[ow] = sum_cut_window(width, rows_of_x, window, start, ow);
      for (int64_t ow = whole.end; ow < width.out; ++ow) row[ow] = sum_cut_window(width, rows_of_x, window, start, ow);
    }
  }
}

}  // namespace

const DepthwiseFunction depthwise_planes = compute_planes;

}  // namespace mydev::kernels::MYDEV_ISA
