// Depthwise convolution of dense channels-first f32 data with 3 x 3 windows (convolution.cpp), one variant per
// instruction set. Each of the planes of the result is one plane of x convolved with its own window.
#pragma once

#include <cstdint>

namespace mydev::kernels {

struct DepthwiseAxis {
  int64_t in, out, stride, padding;
};

struct DepthwiseGeometry {
  int64_t out_channels, multiplier;  // results per channel of x
  DepthwiseAxis height, width;       // the width's stride is 1 or 2
};

// Computes planes [begin, end) of the images * out_channels planes of out. weights [out_channels, 3, 3]; bias
// [out_channels] or nullptr.
using DepthwiseFunction = void (*)(const DepthwiseGeometry& geometry, const float* x, const float* weights,
                                   const float* bias, float* out, int64_t begin, int64_t end);

namespace baseline {
extern const DepthwiseFunction depthwise_planes;
}
namespace avx2 {
extern const DepthwiseFunction depthwise_planes;
}
namespace avx512 {
extern const DepthwiseFunction depthwise_planes;
}

}  // namespace mydev::kernels
