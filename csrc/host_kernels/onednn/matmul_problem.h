// A matrix product as the frame of mydev.matmul gives it.
#pragma once

#include <cstdint>

#include "mydev/custom_call.h"

namespace mydev::kernels {

struct Matrix {
  char* data = nullptr;
  mydev_dtype dtype = MYDEV_DTYPE_INVALID;
  int64_t batch_stride = 0, row_stride = 0, col_stride = 0;
  int32_t buffer = -1;  // of the frame; -1: memory of the kernel's own

  Matrix transposed() const noexcept { return {data, dtype, batch_stride, col_stride, row_stride, buffer}; }
  bool present() const noexcept { return data != nullptr; }
};

struct Problem {
  int64_t batch, m, n, k;
  Matrix out, a, b, addend;  // addend: none if there is nothing to add; may be out itself
  double alpha, beta;
};

// Column-major results come as row-major ones of the transposed product. Throws INVALID_ARGUMENT if sizes or dtypes do
// not fit together, UNIMPLEMENTED for dtypes that the contract does not have.
Problem problem_of(const mydev_frame& frame);

// Sets the strides of dimensions of one element, which mean nothing, to those of a dense matrix.
void normalize(Matrix& matrix, int64_t rows, int64_t columns) noexcept;

// True if oneDNN takes the matrix: one dimension is contiguous, and the other does not overlap it.
bool fits_onednn(const Matrix& matrix, int64_t rows, int64_t columns) noexcept;

}  // namespace mydev::kernels
