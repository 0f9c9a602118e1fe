// 3 x 3 convolutions of dense channels-first f32 images and gradients of their weights, by Winograd's minimal
// filtering, F(2 x 2, 3 x 3) and its transpose, with loops of our own (convolution.cpp), one variant per instruction
// set.
//
// A tile of 2 x 2 results takes 16 products per pair of channels, where its taps would take 36 (A. Lavin and
// S. Gray, Fast Algorithms for Convolutional Neural Networks, 2016). Images, weights and results are transformed by
// additions and halves only; sums over channels are matrix products. The error is that of sums of taps, but relative to
// the largest elements of the tile. Elements beyond 3e37 may overflow, and infinite results may be NaN.
#pragma once

#include <cstdint>

#include "host_kernels/isa_declaration.h"
#include "runtime/base/api.h"

namespace mydev::kernels {

struct WinogradConvolution {
  int64_t images, in_channels, out_channels;
  int64_t in_height, in_width, out_height, out_width;
  int64_t padding_top, padding_left;
  const float* x;                                            // [images, in_channels, in_height, in_width]
  const float* weights;                                      // of the first channels, the first row and column
  int64_t weight_out, weight_in, weight_row, weight_column;  // strides, in elements
  const float* bias;                                         // [out_channels] or nullptr
  float* out;                                                // [images, out_channels, out_height, out_width]

  int64_t tiles_down() const noexcept { return (out_height + 1) / 2; }
  int64_t tiles_across() const noexcept { return (out_width + 1) / 2; }
  int64_t tiles() const noexcept { return images * tiles_down() * tiles_across(); }
};

// Memory is aligned to 64 bytes.
struct WinogradLoops {
  // Weights are transformed before the first task, in parts that may run side by side, as tasks may.
  uint64_t (*weight_bytes)(const WinogradConvolution& convolution);
  int64_t (*weight_parts)(const WinogradConvolution& convolution);
  void (*transform_weights)(const WinogradConvolution& convolution, int64_t part, void* transformed);
  int64_t (*tasks)(const WinogradConvolution& convolution);
  uint64_t (*task_bytes)(const WinogradConvolution& convolution);
  void (*run)(const WinogradConvolution& convolution, int64_t task, const void* transformed, void* memory);
};

// The gradient of a convolution's weights, and of its bias.
struct WinogradGradient {
  WinogradConvolution convolution;  // x; `out` is the gradient of the results; the weights and the bias are not read
  float* grad_weight;               // [out_channels, in_channels, 3, 3]
  float* grad_bias;                 // [out_channels] or nullptr
  int64_t task_tiles;               // about so many tiles are of a task: each adds to all sums
};

// Tasks are shared among pieces, which may run side by side. A piece sums in memory of its own, aligned to 64 bytes:
// its first task overwrites what is there. When all are done, finish() adds the sums of pieces, whose memory lies one
// behind the other, and writes the gradients of output channels [begin, end).
struct WinogradGradientLoops {
  uint64_t (*piece_bytes)(const WinogradGradient& gradient);  // a multiple of 64
  int64_t (*tasks)(const WinogradGradient& gradient);
  void (*run)(const WinogradGradient& gradient, int64_t task, bool is_first, void* memory);
  void (*finish)(const WinogradGradient& gradient, int64_t pieces, int64_t begin, int64_t end, void* memory);
};

MYDEV_DECLARE_VARIANTS(MYDEV_API extern const WinogradLoops winograd_loops;
                       MYDEV_API extern const WinogradGradientLoops winograd_gradient_loops;)

}  // namespace mydev::kernels
