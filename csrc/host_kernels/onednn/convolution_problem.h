// A convolution as oneDNN sees it: one of three kinds of primitive over the operands of the untransposed convolution.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "host_kernels/dense_order.h"
#include "host_kernels/onednn/primitive_cache.h"
#include "mydev/custom_call.h"

namespace mydev::kernels {

inline constexpr int kMaxConvolutionRank = 5;

// One operand: what the frame gives, and what the plan works on.
struct ConvolutionOperand {
  const mydev_buffer* buffer = nullptr;
  uint32_t index = 0;  // of the buffer in the frame
  unsigned orders = kNeitherOrder;
  bool copied = false;       // the plan works on a dense copy in scratch
  uint64_t copy_offset = 0;  // of it

  bool present() const noexcept { return buffer != nullptr; }
  DenseOrder order() const noexcept { return (orders & kChannelsFirst) != 0 ? kChannelsFirst : kChannelsLast; }
};

// Operands in the order that plans take them: those of the untransposed convolution.
enum ConvolutionRole : int32_t { kSource, kWeights, kDestination, kBias, kRoles };

struct ConvolutionProblem {
  const char* kernel;
  PlanKind kind;
  bool transposed;
  std::array<ConvolutionOperand, kRoles> operands;
  int rank;
  int64_t groups;
  std::array<int64_t, 3> stride, padding, dilation;
  mydev_dtype compute;
  bool constant_weights;

  const ConvolutionOperand& operator[](ConvolutionRole role) const noexcept { return operands[role]; }
  ConvolutionOperand& operator[](ConvolutionRole role) noexcept { return operands[role]; }
  // Takes the buffers from another copy of the frame.
  void move_to(const mydev_frame& frame) noexcept {
    for (ConvolutionOperand& operand : operands) {
      if (operand.present()) operand.buffer = &frame.buffers[operand.index];
    }
  }
  bool is_output(ConvolutionRole role) const noexcept {
    switch (kind) {
      case PlanKind::kConvolution:
        return role == kDestination;
      case PlanKind::kConvolutionBackwardData:
        return role == kSource;
      default:
        return role == kWeights || role == kBias;
    }
  }
};

// Reads and checks the problem of a frame of `kernel` (convolution.cpp). Orders and copies are not chosen yet. Raises
// INVALID_ARGUMENT, and UNIMPLEMENTED for other dtypes.
ConvolutionProblem convolution_problem_of(const mydev_frame& frame, const char* kernel, PlanKind kind);
[[noreturn]] void refuse_convolution(const char* kernel, const std::string& why);

}  // namespace mydev::kernels
