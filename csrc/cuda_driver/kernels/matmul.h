// mydev.matmul by cuBLASLt.
//
// Matrices are taken as they lie, if their rows or columns are contiguous. An algorithm is chosen once for each form of
// operands by cuBLASLt's heuristic; nothing is timed, and results are the same from run to run. f32 is multiplied
// without TF32, and partial sums of narrower floats are added in f32.
#pragma once

#include "cuda_driver/kernels/library_kernel.h"

namespace mydev::cuda_driver {

const LibraryKernel& matmul_kernel();

}  // namespace mydev::cuda_driver
