// A frame of mydev.convolution or of one of its gradients as what cuDNN computes: one of three operations over the
// operands of a convolution that is not transposed.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "cuda_driver/library/cudnn_api.h"
#include "mydev/custom_call.h"

namespace mydev::cuda_driver {

enum class ConvolutionKernel { kForward, kBackwardData, kBackwardWeights };

// Sizes and strides as cuDNN wants them: two spatial dimensions or three.
struct ConvolutionOperand {
  uint32_t buffer = 0;  // of the frame
  bool channels_last = false;
  std::array<int, 5> sizes{}, strides{};
};

struct ConvolutionProblem {
  ConvolutionKernel operation{};  // which of the operands it writes: destination, source or weights
  DnnType type{};
  int rank = 0, groups = 0;
  ConvolutionOperand source, weights, destination;
  bool has_bias = false;
  uint32_t bias = 0;  // its buffer: what is added to the result, or the gradient beside that of the weights
  std::array<int, 3> padding{}, stride{}, dilation{};

  const ConvolutionOperand& written() const;
  // All that distinguishes it from others.
  std::vector<int64_t> key() const;
};

// Raises UNIMPLEMENTED for frames that cuDNN does not take.
ConvolutionProblem convolution_problem(const mydev_frame& frame, ConvolutionKernel kernel);

extern const mydev_limits kConvolutionLimits;

}  // namespace mydev::cuda_driver
