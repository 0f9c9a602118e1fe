// mydev.convolution and its gradients by cuDNN.
//
// Operands are dense, channels first or last. An algorithm is chosen once for each form of operands by cuDNN's
// heuristic: one that sums the elements of each window, and gives the same from run to run. f32 is computed without
// TF32. A bias is added to the result, and its gradient summed, by calls of their own.
#pragma once

#include <array>

#include "cuda_driver/kernels/library_kernel.h"

namespace mydev::cuda_driver {

std::array<const LibraryKernel*, 3> convolution_kernels();

}  // namespace mydev::cuda_driver
