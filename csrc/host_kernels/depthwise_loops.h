// Depthwise convolutions of dense f32 data with loops of our own (convolution.cpp), one variant per instruction set.
#pragma once

#include <cstdint>

#include "host_kernels/isa_declaration.h"

namespace mydev::kernels {

struct DepthwiseAxis {
  int64_t in, out, stride, padding, kernel, dilation;
};

// Channels-first data, 3 x 3 windows that are not dilated. Each of the planes of the result is one plane of x convolved
// with its own window.
struct DepthwiseGeometry {
  int64_t out_channels, multiplier;  // results per channel of x
  DepthwiseAxis height, width;       // the width's stride is 1 or 2
};

// Gradients of the weights from channels-last data. The work is split into blocks of channels, times parts of the
// window's rows.
struct DepthwiseGradient {
  static constexpr int64_t kBlock = 64;     // channels
  static constexpr int64_t kMostTaps = 64;  // of a part, and so of one row of the window

  int64_t images, channels;
  DepthwiseAxis height, width;
  int64_t rows_per_part;
  const float *grad_out, *x;  // [images, height, width, channels]
  float* grad_weight;         // [channels, height.kernel, width.kernel]
  float* grad_bias;           // [channels] or nullptr

  int64_t blocks() const noexcept { return (channels + kBlock - 1) / kBlock; }
  int64_t parts() const noexcept { return (height.kernel + rows_per_part - 1) / rows_per_part; }
  int64_t items() const noexcept { return blocks() * parts(); }
};

struct DepthwiseLoops {
  // Computes planes [begin, end) of the images * out_channels planes of out. weights [out_channels, 3, 3]; bias
  // [out_channels] or nullptr.
  void (*planes)(const DepthwiseGeometry& geometry, const float* x, const float* weights, const float* bias, float* out,
                 int64_t begin, int64_t end);
  // Computes what items [begin, end) of the work are for.
  void (*gradient)(const DepthwiseGradient& gradient, int64_t begin, int64_t end);
};

MYDEV_DECLARE_VARIANTS(extern const DepthwiseLoops depthwise_loops;)

}  // namespace mydev::kernels
