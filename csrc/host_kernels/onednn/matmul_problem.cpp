#include "host_kernels/onednn/matmul_problem.h"

#include <string>
#include <utility>

#include "host_kernels/onednn/primitive_plan.h"
#include "host_kernels/wide_product.h"
#include "runtime/base/status.h"
#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"

namespace mydev::kernels {

namespace {

Matrix matrix_of(const mydev_frame& frame, int32_t index) {
  const mydev_buffer& buffer = frame.buffers[index];
  if (buffer.rank != 2 && buffer.rank != 3) {
    throw Error(MYDEV_INVALID_ARGUMENT,
                "mydev.matmul: operands must have 2 or 3 dimensions, got " + std::to_string(buffer.rank));
  }
  const int64_t* strides = buffer.strides + buffer.rank - 2;
  return {static_cast<char*>(buffer.data),
          static_cast<mydev_dtype>(buffer.dtype),
          buffer.rank == 3 ? buffer.strides[0] : 0,
          strides[0],
          strides[1],
          index};
}

}  // namespace

Problem problem_of(const mydev_frame& frame) {
  const uint32_t num_buffers = frame.num_outputs + frame.num_inputs;
  if (frame.num_outputs != 1 || num_buffers < 3 || num_buffers > 4 || frame.num_attributes != 2) {
    throw Error(MYDEV_INVALID_ARGUMENT, "mydev.matmul: takes (out, a, b[, addend]; alpha, beta)");
  }
  const mydev_buffer& out = frame.buffers[0];
  Problem problem{.batch = out.rank == 3 ? out.sizes[0] : 1,
                  .m = 0,
                  .n = 0,
                  .k = 0,
                  .out = matrix_of(frame, 0),
                  .a = matrix_of(frame, 1),
                  .b = matrix_of(frame, 2),
                  .addend = {},
                  .alpha = frame.attributes[0].value.f,
                  .beta = frame.attributes[1].value.f};
  problem.m = out.sizes[out.rank - 2];
  problem.n = out.sizes[out.rank - 1];
  problem.k = frame.buffers[1].sizes[out.rank - 1];
  const auto fits = [&](const mydev_buffer& buffer, int64_t rows, int64_t columns, int32_t dtype) {
    return buffer.dtype == dtype && buffer.rank == out.rank && (out.rank == 2 || buffer.sizes[0] == out.sizes[0]) &&
           buffer.sizes[out.rank - 2] == rows && buffer.sizes[out.rank - 1] == columns;
  };
  const bool addend_given = num_buffers == 4;
  const int32_t factors = frame.buffers[1].dtype;
  if (!fits(frame.buffers[1], problem.m, problem.k, factors) ||
      !fits(frame.buffers[2], problem.k, problem.n, factors) ||
      (addend_given && !fits(frame.buffers[3], problem.m, problem.n, out.dtype))) {
    throw Error(MYDEV_INVALID_ARGUMENT, "mydev.matmul: sizes or dtypes of the operands do not fit together");
  }
  for (const mydev_dtype dtype : {static_cast<mydev_dtype>(out.dtype), static_cast<mydev_dtype>(factors)}) {
    if (!is_computed_in_f32(dtype) && (kWideDtypes & MYDEV_DTYPE_BIT(dtype)) == 0) {
      throw Error(MYDEV_UNIMPLEMENTED, "mydev.matmul: multiplies no " + std::string(dtype_name(dtype)));
    }
  }
  if (problem.beta != 0) problem.addend = addend_given ? matrix_of(frame, 3) : problem.out;
  if (problem.batch == 1) {
    for (Matrix* matrix : {&problem.out, &problem.a, &problem.b, &problem.addend}) matrix->batch_stride = 0;
  }
  // Column-major results are row-major results of the transposed product; so is a column vector, as one row.
  const bool column_major = problem.out.col_stride != 1 && problem.out.row_stride == 1 && problem.m > 1;
  if (column_major || (problem.n == 1 && problem.m > 1)) {
    std::swap(problem.m, problem.n);
    const Matrix a = problem.a;
    problem.a = problem.b.transposed();
    problem.b = a.transposed();
    problem.out = problem.out.transposed();
    problem.addend = problem.addend.transposed();
  }
  return problem;
}

void normalize(Matrix& matrix, int64_t rows, int64_t columns) noexcept {
  if (columns == 1 && rows > 1) matrix.col_stride = matrix.row_stride == 1 ? rows : 1;
  if (rows == 1) matrix.row_stride = matrix.col_stride == 1 ? columns : 1;
}

bool fits_onednn(const Matrix& matrix, int64_t rows, int64_t columns) noexcept {
  if (matrix.batch_stride < 0) return false;
  return (matrix.col_stride == 1 && matrix.row_stride >= columns) ||
         (matrix.row_stride == 1 && matrix.col_stride >= rows);
}

}  // namespace mydev::kernels
