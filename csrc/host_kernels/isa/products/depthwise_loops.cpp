// The loops of depthwise_loops.h for one instruction set.
//
// Results: where a window lies inside the plane, a row of results is summed in registers. Rows at the borders go tap by
// tap over the part of the row where the tap lies inside, columns at the borders of other rows result by result.
//
// Gradients of weights: a row of gradients meets each row of x that its windows read, tap by tap over the part where
// the tap lies inside, channels side by side. Sums of rows are added up in a block that stays in the first-level cache.
#include "host_kernels/depthwise_loops.h"

#include <algorithm>

#include "host_kernels/isa/simd/simd.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int kTaps = 3;  // along each axis, of what channels-first data is convolved with

// Positions of the result.
struct Range {
  int64_t begin, end;
};
constexpr Range kNone = {0, 0};

// Returns the positions whose taps [first, last] lie inside.
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

// --- gradients of weights --------------------------------------------------------------------------------------------

constexpr int64_t kBlock = DepthwiseGradient::kBlock;

// sums[lane] += the sum of a[i][lane] * b[i][lane], i < count, lanes of kVectors vectors, in kChains chains for each.
// The last vector has only its first `lanes` lanes, unless that is 0.
template <int kVectors, int kChains>
void add_products(const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t count, int64_t lanes,
                  float* sums) {
  constexpr int64_t n = kLanes<float>;
  F32 chains[kChains][kVectors] = {};
  const auto load_lanes = [&](const float* p) { return lanes == 0 ? load(p) : load_partial(p, lanes); };
  const auto add = [&](int64_t i, F32(&to)[kVectors]) {
    for (int v = 0; v < kVectors; ++v) {
      to[v] = fma(load_lanes(a + i * a_step + v * n), load_lanes(b + i * b_step + v * n), to[v]);
    }
  };
  int64_t i = 0;
  for (; i + kChains <= count; i += kChains) {
    for (int chain = 0; chain < kChains; ++chain) add(i + chain, chains[chain]);
  }
  for (; i < count; ++i) add(i, chains[0]);
  for (int v = 0; v < kVectors; ++v) {
    F32 sum = load(sums + v * n);
    for (int chain = 0; chain < kChains; ++chain) sum += chains[chain][v];
    store(sums + v * n, sum);
  }
}

// The same for `channels` of a block.
void add_row(const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t count, int64_t channels,
             float* sums) {
  constexpr int64_t n = kLanes<float>;
  int64_t c = 0;
  for (; c + 4 * n <= channels; c += 4 * n) add_products<4, 1>(a + c, a_step, b + c, b_step, count, 0, sums + c);
  for (; c + n <= channels; c += n) add_products<1, 4>(a + c, a_step, b + c, b_step, count, 0, sums + c);
  if (c < channels) add_products<1, 4>(a + c, a_step, b + c, b_step, count, channels - c, sums + c);
}

// Rows [begin, end) of the window, for `channels` channels from `first` on.
void compute_gradient_part(const DepthwiseGradient& gradient, int64_t first, int64_t channels, int64_t begin,
                           int64_t end) {
  const DepthwiseAxis &height = gradient.height, &width = gradient.width;
  alignas(64) float sums[DepthwiseGradient::kMostTaps][kBlock] = {}, bias_sums[kBlock] = {}, ones[kBlock];
  std::fill_n(ones, kBlock, 1.0F);
  Range valid[DepthwiseGradient::kMostTaps];
  for (int64_t kw = 0; kw < width.kernel; ++kw) valid[kw] = inside(width, kw * width.dilation, kw * width.dilation);
  const bool with_bias = gradient.grad_bias != nullptr && begin == 0;
  const int64_t step = gradient.channels;
  for (int64_t row = 0; row < gradient.images * height.out; ++row) {
    const float* grad_row = gradient.grad_out + row * width.out * step + first;
    const float* image = gradient.x + row / height.out * height.in * width.in * step + first;
    if (with_bias) add_row(grad_row, step, ones, 0, width.out, channels, bias_sums);
    for (int64_t kh = begin; kh < end; ++kh) {
      const int64_t ih = row % height.out * height.stride - height.padding + kh * height.dilation;
      if (ih < 0 || ih >= height.in) continue;
      for (int64_t kw = 0; kw < width.kernel; ++kw) {
        const auto [from, to] = valid[kw];
        if (from == to) continue;
        const int64_t iw = from * width.stride - width.padding + kw * width.dilation;
        add_row(grad_row + from * step, step, image + (ih * width.in + iw) * step, width.stride * step, to - from,
                channels, sums[(kh - begin) * width.kernel + kw]);
      }
    }
  }
  const int64_t taps = height.kernel * width.kernel;
  for (int64_t c = 0; c < channels; ++c) {
    float* window = gradient.grad_weight + (first + c) * taps + begin * width.kernel;
    for (int64_t tap = 0; tap < (end - begin) * width.kernel; ++tap) window[tap] = sums[tap][c];
  }
  if (with_bias) std::copy_n(bias_sums, channels, gradient.grad_bias + first);
}

void compute_gradient(const DepthwiseGradient& gradient, int64_t begin, int64_t end) {
  const int64_t parts = gradient.parts();
  for (int64_t item = begin; item < end; ++item) {
    const int64_t first = item / parts * kBlock, row = item % parts * gradient.rows_per_part;
    compute_gradient_part(gradient, first, std::min(kBlock, gradient.channels - first), row,
                          std::min(row + gradient.rows_per_part, gradient.height.kernel));
  }
}

}  // namespace

const DepthwiseLoops depthwise_loops = {compute_planes, compute_gradient};

}  // namespace mydev::kernels::MYDEV_ISA
