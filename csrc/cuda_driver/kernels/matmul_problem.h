// A frame of mydev.matmul as the product of column-major matrices that cuBLASLt computes:
//
//   d = alpha * op(a) * op(b) + beta * c
//
// A row-major result is the column-major one of the transposed product, b^T * a^T.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "cuda_driver/library/cublaslt_api.h"
#include "mydev/custom_call.h"

namespace mydev::cuda_driver {

// Types of numbers that cuBLASLt multiplies.
struct MatmulTypes {
  mydev_dtype factors, result;
  LtType factor, sum_scale, out;  // of a and b; of alpha and beta; of c and d
  LtCompute compute;
  bool adds_bias;  // a vector can be added without a matrix c
};

uint32_t bytes_of(LtType type) noexcept;

// `rows` and `columns` are those of the matrix as it lies.
struct ColumnMajor {
  uint32_t buffer = 0;  // of the frame
  int64_t rows = 0, columns = 0, stride = 0, batch_stride = 0;
  bool transposed = false;  // a and b: op transposes it
};

struct MatmulProblem {
  const MatmulTypes* types = nullptr;
  int64_t batch = 1;
  ColumnMajor a, b, c, d;  // c is d where nothing is added to the product
  bool bias = false;       // c is a column, which is added to each
  uint32_t alignment = 1;  // of all batches of all matrices in bytes, up to 16, if their buffers are aligned to 16

  std::array<const ColumnMajor*, 4> matrices() const { return {&a, &b, &c, &d}; }
  // All that distinguishes it from others.
  std::vector<int64_t> key() const;
};

// Raises UNIMPLEMENTED for frames that cuBLASLt does not take.
MatmulProblem matmul_problem(const mydev_frame& frame);

extern const mydev_limits kMatmulLimits;

}  // namespace mydev::cuda_driver
