#include "cuda_driver/kernels/matmul_problem.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "cuda_driver/library/cuda_error.h"

namespace mydev::cuda_driver {

namespace {

constexpr MatmulTypes kMatmulTypes[] = {
    {MYDEV_F16, MYDEV_F16, LtType::kF16, LtType::kF32, LtType::kF16, LtCompute::kF32, true},
    {MYDEV_F16, MYDEV_F32, LtType::kF16, LtType::kF32, LtType::kF32, LtCompute::kF32, true},
    {MYDEV_BF16, MYDEV_BF16, LtType::kBf16, LtType::kF32, LtType::kBf16, LtCompute::kF32, true},
    {MYDEV_BF16, MYDEV_F32, LtType::kBf16, LtType::kF32, LtType::kF32, LtCompute::kF32, true},
    {MYDEV_F32, MYDEV_F32, LtType::kF32, LtType::kF32, LtType::kF32, LtCompute::kF32, true},
    {MYDEV_F64, MYDEV_F64, LtType::kF64, LtType::kF64, LtType::kF64, LtCompute::kF64, false},
    {MYDEV_C64, MYDEV_C64, LtType::kC64, LtType::kC64, LtType::kC64, LtCompute::kF32, false},
    {MYDEV_C128, MYDEV_C128, LtType::kC128, LtType::kC128, LtType::kC128, LtCompute::kF64, false},
    {MYDEV_S8, MYDEV_S32, LtType::kS8, LtType::kS32, LtType::kS32, LtCompute::kS32, false},
    {MYDEV_F8E4M3FN, MYDEV_F16, LtType::kF8e4m3, LtType::kF32, LtType::kF16, LtCompute::kF32, false},
    {MYDEV_F8E4M3FN, MYDEV_BF16, LtType::kF8e4m3, LtType::kF32, LtType::kBf16, LtCompute::kF32, false},
    {MYDEV_F8E4M3FN, MYDEV_F32, LtType::kF8e4m3, LtType::kF32, LtType::kF32, LtCompute::kF32, false},
};

constexpr uint64_t all_dtypes(mydev_dtype MatmulTypes::* which) {
  uint64_t all = 0;
  for (const MatmulTypes& types : kMatmulTypes) all |= MYDEV_DTYPE_BIT(types.*which);
  return all;
}
constexpr mydev_operand_limits operand_limits(const char* name, uint64_t dtypes) {
  return {sizeof(mydev_operand_limits), name, dtypes, -1, 0};
}
constexpr uint64_t kFactors = all_dtypes(&MatmulTypes::factors), kResults = all_dtypes(&MatmulTypes::result);
constexpr mydev_operand_limits kOut = operand_limits("out", kResults), kA = operand_limits("a", kFactors),
                               kB = operand_limits("b", kFactors), kAddend = operand_limits("addend", kResults);
constexpr const mydev_operand_limits* kMatmulOperands[] = {&kOut, &kA, &kB, &kAddend};

struct StridedMatrix {
  uint32_t buffer;
  int64_t rows, columns, row_stride, column_stride, batch_stride;

  StridedMatrix transposed() const { return {buffer, columns, rows, column_stride, row_stride, batch_stride}; }
  // The matrix as it lies, if it is column-major: strides of a dimension of one element mean nothing.
  std::optional<ColumnMajor> column_major() const {
    if (rows > 1 && row_stride != 1) return std::nullopt;
    const int64_t stride = columns > 1 ? column_stride : rows;
    if (stride < rows) return std::nullopt;
    return ColumnMajor{buffer, rows, columns, stride, batch_stride, false};
  }
};

StridedMatrix matrix_of(const mydev_frame& frame, uint32_t index) {
  const mydev_buffer& buffer = frame.buffers[index];
  const int64_t* sizes = buffer.sizes + buffer.rank - 2;
  const int64_t* strides = buffer.strides + buffer.rank - 2;
  return {index, sizes[0], sizes[1], strides[0], strides[1], buffer.rank == 3 ? buffer.strides[0] : 0};
}

const MatmulTypes& types_of(const mydev_frame& frame, double alpha, double beta) {
  const int16_t factors = frame.buffers[1].dtype, result = frame.buffers[0].dtype;
  const auto* found = std::ranges::find_if(
      kMatmulTypes, [&](const MatmulTypes& types) { return types.factors == factors && types.result == result; });
  require(found != std::end(kMatmulTypes) && frame.buffers[2].dtype == factors, MYDEV_UNIMPLEMENTED,
          "multiplies by cuBLASLt, which has no such product of dtypes");
  require(found->compute != LtCompute::kS32 || (alpha == 1 && (beta == 0 || beta == 1)), MYDEV_UNIMPLEMENTED,
          "multiplies integers by cuBLASLt, which scales none");
  return *found;
}

void check_sizes(const mydev_frame& frame) {
  const mydev_buffer& out = frame.buffers[0];
  for (uint32_t i = 0; i < 1 + frame.num_inputs; ++i) {
    const mydev_buffer& buffer = frame.buffers[i];
    if (buffer.dtype == MYDEV_DTYPE_INVALID) continue;
    const bool empty = std::any_of(buffer.sizes, buffer.sizes + buffer.rank, [](int64_t size) { return size == 0; });
    require(buffer.rank == out.rank && (out.rank == 2 || out.rank == 3) && !empty, MYDEV_UNIMPLEMENTED,
            "multiplies by cuBLASLt, which takes matrices that are not empty");
    require(buffer.rank == 2 || (buffer.sizes[0] == out.sizes[0] && buffer.strides[0] >= 0), MYDEV_UNIMPLEMENTED,
            "multiplies by cuBLASLt, which takes batches of one size, in their order");
  }
}

ColumnMajor factor_of(const StridedMatrix& matrix, bool prefers_transposed) {
  auto plain = matrix.column_major(), transposed = matrix.transposed().column_major();
  if (transposed) transposed->transposed = true;
  if (transposed && (prefers_transposed || !plain)) return *transposed;
  if (!plain) {
    raise(MYDEV_UNIMPLEMENTED, "multiplies by cuBLASLt, which takes matrices with contiguous rows or columns");
  }
  return *plain;
}

// Sets what is added to d.
void set_addend(MatmulProblem& problem, const StridedMatrix& matrix, double beta) {
  constexpr const char* kLayout = "adds by cuBLASLt, which takes a matrix that lies as the result does, or one row";
  if (std::optional<ColumnMajor> as_result = matrix.column_major()) {
    problem.c = *as_result;
    return;
  }
  // One column, which is repeated.
  const bool repeats = matrix.column_stride == 0 && (matrix.rows == 1 || matrix.row_stride == 1);
  require(repeats, MYDEV_UNIMPLEMENTED, kLayout);
  problem.c = {matrix.buffer, matrix.rows, matrix.columns, 0, matrix.batch_stride, false};
  problem.bias = beta == 1 && problem.batch == 1 && problem.types->adds_bias;
}

uint32_t alignment_of(const MatmulProblem& problem) {
  uint64_t bits = 16;
  if (problem.batch > 1) {
    for (const ColumnMajor* matrix : problem.matrices()) {
      const bool is_factor = matrix == &problem.a || matrix == &problem.b;
      const LtType type = is_factor ? problem.types->factor : problem.types->out;
      bits |= static_cast<uint64_t>(matrix->batch_stride) * bytes_of(type);
    }
  }
  return static_cast<uint32_t>(bits & (~bits + 1));
}

}  // namespace

extern const mydev_limits kMatmulLimits = {sizeof(mydev_limits), kFactors | kResults,       3, 0,
                                           kMatmulOperands,      std::size(kMatmulOperands)};

uint32_t bytes_of(LtType type) noexcept {
  switch (type) {
    case LtType::kS8:
    case LtType::kF8e4m3:
      return 1;
    case LtType::kF16:
    case LtType::kBf16:
      return 2;
    case LtType::kF32:
    case LtType::kS32:
      return 4;
    case LtType::kF64:
    case LtType::kC64:
      return 8;
    case LtType::kC128:
      break;
  }
  return 16;
}

std::vector<int64_t> MatmulProblem::key() const {
  std::vector<int64_t> all = {types - kMatmulTypes, batch, bias ? 1 : 0};
  for (const ColumnMajor* matrix : matrices()) {
    all.insert(all.end(), {matrix->buffer, matrix->rows, matrix->columns, matrix->stride, matrix->batch_stride,
                           matrix->transposed ? 1 : 0});
  }
  return all;
}

MatmulProblem matmul_problem(const mydev_frame& frame) {
  check_sizes(frame);
  const double alpha = frame.attributes[0].value.f, beta = frame.attributes[1].value.f;
  require(alpha != 0, MYDEV_UNIMPLEMENTED, "multiplies by cuBLASLt, which reads factors that alpha == 0 leaves out");
  MatmulProblem problem{.types = &types_of(frame, alpha, beta)};
  if (frame.buffers[0].rank == 3) problem.batch = frame.buffers[0].sizes[0];
  require(problem.batch <= std::numeric_limits<int32_t>::max(), MYDEV_UNIMPLEMENTED,
          "multiplies by cuBLASLt, which takes no such batch");
  StridedMatrix out = matrix_of(frame, 0), a = matrix_of(frame, 1), b = matrix_of(frame, 2);
  const bool adds = beta != 0, addend_given = frame.num_inputs == 3 && frame.buffers[3].dtype != MYDEV_DTYPE_INVALID;
  StridedMatrix addend = adds && addend_given ? matrix_of(frame, 3) : out;
  const auto fits = [](const StridedMatrix& matrix, int64_t rows, int64_t columns) {
    return matrix.rows == rows && matrix.columns == columns;
  };
  require(fits(a, out.rows, b.rows) && fits(b, a.columns, out.columns) && fits(addend, out.rows, out.columns) &&
              frame.buffers[addend.buffer].dtype == frame.buffers[0].dtype,
          MYDEV_UNIMPLEMENTED, "multiplies by cuBLASLt, which takes operands that fit together");
  if (out.transposed().column_major()) {
    out = out.transposed();
    addend = addend.transposed();
    std::swap(a, b);
    a = a.transposed();
    b = b.transposed();
  }
  const std::optional<ColumnMajor> d = out.column_major();
  if (!d) raise(MYDEV_UNIMPLEMENTED, "multiplies by cuBLASLt, which writes matrices with contiguous rows or columns");
  problem.d = problem.c = *d;
  problem.a = factor_of(a, /*prefers_transposed=*/true);
  problem.b = factor_of(b, /*prefers_transposed=*/false);
  if (adds) set_addend(problem, addend, beta);
  problem.alignment = alignment_of(problem);
  return problem;
}

}  // namespace mydev::cuda_driver
