#include "host_kernels/onednn/integer_product.h"

#include <string>

#include "host_kernels/onednn/primitive_plan.h"
#include "runtime/base/status.h"
#include "runtime/frame/frame.h"

namespace mydev::kernels {

namespace {

// Whether oneDNN multiplies these into 32 bits with instructions made for that. Without them it adds pairs of products
// in 16 bits, which overflow.
bool has_integer_instructions(const Problem& problem) {
  return problem.a.dtype == MYDEV_S8 && problem.out.dtype == MYDEV_S32 && onednn_supports(MYDEV_S8);
}

}  // namespace

bool is_of_dots(const Problem& problem) {
  const int64_t most_rows = has_integer_instructions(problem) ? 2 : 8;
  return !is_computed_in_f32(problem.a.dtype) && dtype_size(problem.a.dtype) <= 2 && problem.m <= most_rows &&
         problem.a.col_stride == 1 && (problem.b.row_stride == 1 || problem.k == 1);
}

bool takes_integers(const Problem& problem) {
  return has_integer_instructions(problem) && !is_of_dots(problem) && problem.k != 0 && problem.alpha == 1 &&
         !problem.addend.present() && fits_onednn(problem.a, problem.m, problem.k) &&
         fits_onednn(problem.b, problem.k, problem.n) && fits_onednn(problem.out, problem.m, problem.n) &&
         problem.out.col_stride == 1;
}

void multiply_integers(const Problem& problem) {
  const auto form = [](const Matrix& matrix) { return matrix.col_stride == 1 ? 'N' : 'T'; };
  const auto apart = [](const Matrix& matrix) {
    return matrix.col_stride == 1 ? matrix.row_stride : matrix.col_stride;
  };
  const auto at = [](const Matrix& matrix, int64_t index) {
    return matrix.data + index * matrix.batch_stride * dtype_size(matrix.dtype);
  };
  for (int64_t index = 0; index < problem.batch; ++index) {
    constexpr int32_t kNoOffset = 0;
    const dnnl_status_t status =
        dnnl_gemm_s8s8s32(form(problem.a), form(problem.b), 'F', problem.m, problem.n, problem.k, 1.0f,
                          reinterpret_cast<const int8_t*>(at(problem.a, index)), apart(problem.a), 0,
                          reinterpret_cast<const int8_t*>(at(problem.b, index)), apart(problem.b), 0, 0.0f,
                          reinterpret_cast<int32_t*>(at(problem.out, index)), problem.out.row_stride, &kNoOffset);
    if (status == dnnl_success) continue;
    throw Error(status == dnnl_out_of_memory ? MYDEV_RESOURCE_EXHAUSTED : MYDEV_INTERNAL,
                "mydev.matmul: oneDNN's product of integers failed with status " + std::to_string(status));
  }
}

}  // namespace mydev::kernels
