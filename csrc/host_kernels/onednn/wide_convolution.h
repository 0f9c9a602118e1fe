// Convolutions in dtypes that oneDNN does not convolve: f64, integers and complex numbers.
//
// A convolution is the sum of a matrix product for each tap of the window and each row of its result (wide_product.h),
// over operands of any strides, which are not copied. Integers wrap around. Thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "host_kernels/onednn/convolution_problem.h"
#include "mydev/custom_call.h"

namespace mydev::kernels {

// The operands of a problem by their roles, all of the dtype that it computes in; data is nullptr for an absent bias.
using ConvolutionBuffers = std::array<mydev_buffer, kRoles>;

uint64_t wide_convolution_bytes(const ConvolutionProblem& problem);
// `memory`: wide_convolution_bytes, aligned to 64 bytes.
void run_wide_convolution(const mydev_frame& frame, const ConvolutionProblem& problem,
                          const ConvolutionBuffers& buffers, char* memory);

}  // namespace mydev::kernels
