// The inner loops of the pooling kernels (pooling.cpp) over dense data, one variant per instruction set.
//
// Data is [planes, height, width, lanes]: channels-first has a plane per image and channel and one lane, channels-last
// a plane per image and a lane per channel. Forward functions compute rows [begin, end) of the planes * out_height rows
// of the result. Backward functions compute gradients of blocks [begin, end) of the blocks() that x is split into.
#pragma once

#include <cstdint>

#include "host_kernels/isa_declaration.h"
#include "runtime/base/api.h"

namespace mydev::kernels {

struct PoolingAxis {
  int64_t in, out, kernel, stride, padding, dilation;

  // Whether windows are two elements each, side by side, all of them inside.
  bool is_halved() const noexcept {
    return kernel == 2 && stride == 2 && padding == 0 && dilation == 1 && out * 2 <= in;
  }
};

struct PoolingGeometry {
  int64_t planes, lanes;
  PoolingAxis height, width;
  bool count_include_pad;
  int64_t divisor;  // of averages; 0: the number of elements
  bool adaptive;    // windows are the even split of `in` into `out`; kernel, stride, padding, dilation mean nothing

  static constexpr int64_t kBlockLanes = 64;
  int64_t blocks_per_plane() const noexcept { return (lanes + kBlockLanes - 1) / kBlockLanes; }
  int64_t blocks() const noexcept { return planes * blocks_per_plane(); }
};

template <typename T>
struct MaxPooling {
  void (*forward)(const PoolingGeometry& geometry, const T* x, T* out, int64_t* indices, int64_t begin, int64_t end);
  void (*backward)(const PoolingGeometry& geometry, const T* grad_out, const int64_t* indices, T* grad_x, int64_t begin,
                   int64_t end);
};

template <typename T>
struct AveragePooling {
  void (*forward)(const PoolingGeometry& geometry, const T* x, T* out, int64_t begin, int64_t end);
  void (*backward)(const PoolingGeometry& geometry, const T* grad_out, T* grad_x, int64_t begin, int64_t end);
};

struct MaxPoolingLoops {
  MaxPooling<float> f32;
  MaxPooling<double> f64;
};
struct AveragePoolingLoops {
  AveragePooling<float> f32;
  AveragePooling<double> f64;
};

MYDEV_DECLARE_VARIANTS(MYDEV_API extern const MaxPoolingLoops max_pooling_loops;
                       MYDEV_API extern const AveragePoolingLoops average_pooling_loops;)

}  // namespace mydev::kernels
