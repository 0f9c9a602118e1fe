// Kernel group matmul: mydev.matmul(out, a, b[, addend]; alpha, beta).
//
//   out = alpha * (a @ b) + beta * addend
//
// a is [M, K] or [B, M, K], b is [K, N] or [B, K, N], out and addend are [M, N] or [B, M, N]. Without addend and with
// beta != 0, out itself is the addend; beta == 0 means that no addend is read, alpha == 0 that neither a nor b is, as
// in BLAS. Any strides, 0 and negative ones included; out must not overlap a or b, and may overlap addend only by being
// it. The contract says which dtypes a, b and out have; the product is computed in that of out, or in f32 for narrower
// floats.
//
// Algorithms, in this order:
//   small   few multiplications, or few rows: own loops (small_gemm.h)
//   oneDNN  the rest; a plan from the one cache, operands reordered inside the plan where oneDNN wants them dense; on
//           the caller's thread alone where that takes some microseconds. A constant b is kept as oneDNN wants it best,
//           from the first run on
//   wide    f64, integers and complex numbers, and f32 where oneDNN is slow without AVX-512: own loops
//   (wide_product.h);
//           dots are their dot products, for few rows of narrow integers
//   integers  s8 into s32 where the processor has instructions for it: oneDNN's function, since its primitives round
//   such
//           sums to f32
// Operands of another dtype than that of the computation are converted first, and a narrower result is rounded once, at
// the end. f16 is computed in f32, and bf16 is where the processor has no such instructions, or out is f32. Operands
// with strides that an algorithm does not take are copied, too.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <string>

#include "host_kernels/builtin_kernels.h"
#include "host_kernels/isa_variant.h"
#include "host_kernels/nested_copy.h"
#include "host_kernels/onednn/integer_product.h"
#include "host_kernels/onednn/matmul_problem.h"
#include "host_kernels/onednn/primitive_cache.h"
#include "host_kernels/onednn/primitive_plan.h"
#include "host_kernels/small_gemm.h"
#include "host_kernels/wide_product.h"
#include "kernels/registry/kernel_entry.h"
#include "runtime/base/one_thread.h"
#include "runtime/base/parallel.h"
#include "runtime/frame/frame.h"

namespace mydev::kernels {

namespace {

// Multiplications up to which own loops beat oneDNN's call, if they need not pack a larger transposed b than this.
constexpr int64_t kSmallMultiplications = 40 * 40 * 40;
constexpr int64_t kSmallPacked = 8 * 1024;
// Multiplications up to which oneDNN runs on one thread, of f32: some 8 us. Operands of that size come from kernels
// that ran on this thread, so that another has to fetch them first, and wherever it sleeps or is not given a processor
// at once the product takes many times as long.
constexpr int64_t kOneThreadMultiplications = 400 * 1000;
// Multiplications of the wide loops from which a fork pays: some 10 us, of 8 and 16 bits less.
constexpr int64_t kWideForkMultiplications = 40 * 1000;
constexpr int64_t kShortForkMultiplications = 200 * 1000;
// Rows up to which dot products beat oneDNN's packing of a transposed b, and its elements per row from which they do.
constexpr int64_t kDotRows = 8;
constexpr int64_t kDotElementsPerRow = 12 * 1024;
// Rows up to which sums of b's rows beat oneDNN, and elements of b from which they do.
constexpr int64_t kSumRows = 8;
constexpr int64_t kSumElements = 32 * 1024;
// Rows up to which either of these beats oneDNN's products of bf16, where the processor has instructions for them.
constexpr int64_t kBf16Rows = 4;

const SmallGemmFunctions& small_gemm_functions() {
  static const SmallGemmFunctions& functions = MYDEV_ISA_VARIANT(instruction_set(), small_gemm);
  return functions;
}

const WideProductFunctions& wide_product_functions() {
  static const WideProductFunctions& functions = MYDEV_ISA_VARIANT(instruction_set(), wide_product);
  return functions;
}

enum class Algorithm { kNothing, kSmall, kDot, kRows, kOnednn, kIntegers, kWide, kWideDots };

// How a frame will be computed. The operands may lie elsewhere when it is: see move_to.
struct MatmulPlan {
  Problem problem{};
  Matrix given_a, given_b, given_out;  // before copies were planned
  Algorithm algorithm = Algorithm::kNothing;
  bool one_thread = false;  // of oneDNN
  mydev_dtype compute = MYDEV_F32;
  bool copy_a = false, copy_b = false, copy_out = false;  // into dense scratch of dtype `compute`
  bool fused_bias = false;                                // addend is one row, added inside the primitive
  bool zero_operands = false;                             // no product: that of two zeros, of k == 1
  bool constant_b = false;                                // of oneDNN
  uint64_t a_offset = 0, b_offset = 0, out_offset = 0, primitives_offset = 0, wide_offset = 0;
  int64_t wide_pieces = 0;  // of kWide, of which each has memory
  uint64_t wide_piece_bytes = 0;
  uint64_t scratch_bytes = 0;
  std::shared_ptr<PrimitivePlan> primitives;
  std::shared_ptr<KeptOperands> kept;  // b, if it is constant and is not used as it lies

  // Takes the operands' addresses from the frame that runs.
  void move_to(const mydev_frame& frame) noexcept {
    for (Matrix* matrix : {&problem.out, &problem.a, &problem.b, &problem.addend, &given_a, &given_b, &given_out}) {
      if (matrix->buffer >= 0) matrix->data = static_cast<char*>(frame.buffers[matrix->buffer].data);
    }
  }
};

uint64_t reserve(MatmulPlan& plan, int64_t elements) {
  const uint64_t offset = plan.scratch_bytes;
  plan.scratch_bytes += (static_cast<uint64_t>(elements * dtype_size(plan.compute)) + 63) / 64 * 64;
  return offset;
}

dnnl::memory::desc descriptor_of(const Problem& problem, const Matrix& matrix, mydev_dtype dtype, int64_t rows,
                                 int64_t columns) {
  if (problem.batch == 1) return {{rows, columns}, onednn_dtype(dtype), {matrix.row_stride, matrix.col_stride}};
  // A batch that repeats one matrix is a batch of one, which oneDNN broadcasts.
  const bool repeats = matrix.batch_stride == 0;
  return {{repeats ? 1 : problem.batch, rows, columns},
          onednn_dtype(dtype),
          {repeats ? rows * columns : matrix.batch_stride, matrix.row_stride, matrix.col_stride}};
}

dnnl::memory::desc dense_like(const dnnl::memory::desc& descriptor) {
  const auto dims = descriptor.get_dims();
  return {dims, descriptor.get_data_type(),
          dims.size() == 2 ? dnnl::memory::format_tag::ab : dnnl::memory::format_tag::abc};
}

// Operands of a plan, in this order.
enum : int32_t { kOut, kA, kB, kAddend };

std::shared_ptr<PrimitivePlan> make_primitives(const MatmulPlan& plan) {
  const Problem& problem = plan.problem;
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops post_ops;
  const auto alpha = static_cast<float>(problem.alpha), beta = static_cast<float>(problem.beta);
  if (alpha != 1) post_ops.append_eltwise(dnnl::algorithm::eltwise_linear, alpha, 0);
  if (problem.addend.present() && !plan.fused_bias) post_ops.append_sum(beta);
  attributes.set_post_ops(post_ops);

  const dnnl::memory::desc a = descriptor_of(problem, problem.a, plan.compute, problem.m, problem.k);
  const dnnl::memory::desc b = descriptor_of(problem, problem.b, plan.compute, problem.k, problem.n);
  const dnnl::memory::desc out = descriptor_of(problem, problem.out, plan.compute, problem.m, problem.n);
  dnnl::memory::desc bias;
  if (plan.fused_bias) {
    bias = problem.batch == 1
               ? dnnl::memory::desc({1, problem.n}, onednn_dtype(plan.compute), {problem.n, 1})
               : dnnl::memory::desc({1, 1, problem.n}, onednn_dtype(plan.compute), {problem.n, problem.n, 1});
  }
  const auto describe = [&](const dnnl::memory::desc& a_used, const dnnl::memory::desc& b_used,
                            const dnnl::memory::desc& out_used) {
    return plan.fused_bias ? dnnl::matmul::primitive_desc(onednn_engine(), a_used, b_used, bias, out_used, attributes)
                           : dnnl::matmul::primitive_desc(onednn_engine(), a_used, b_used, out_used, attributes);
  };
  // A constant b may lie as oneDNN likes.
  const auto wanted = [&](const dnnl::memory::desc& given) {
    return plan.constant_b ? dnnl::memory::desc(b.get_dims(), b.get_data_type(), dnnl::memory::format_tag::any) : given;
  };
  auto primitives = std::make_shared<PrimitivePlan>();
  PrimitivePlan::Argument a_argument{DNNL_ARG_SRC, kA, 0, a}, b_argument{DNNL_ARG_WEIGHTS, kB, 0, b},
      out_argument{DNNL_ARG_DST, kOut, 0, out};
  dnnl::matmul::primitive_desc descriptor = describe(a, wanted(b), out);
  const bool reference = std::strncmp(descriptor.impl_info_str(), "ref", 3) == 0;
  if (reference) {  // no fast kernel takes these strides: go through dense copies
    const dnnl::memory::desc dense_a = dense_like(a), dense_b = dense_like(b), dense_out = dense_like(out);
    descriptor = describe(dense_a, wanted(dense_b), dense_out);
    a_argument = {DNNL_ARG_SRC, PrimitivePlan::kScratch, primitives->reserve(dense_a.get_size()), dense_a};
    out_argument = {DNNL_ARG_DST, PrimitivePlan::kScratch, primitives->reserve(dense_out.get_size()), dense_out};
    primitives->add_reorder({0, kA, 0, a}, a_argument);
    if (!plan.constant_b) {
      b_argument = {DNNL_ARG_WEIGHTS, PrimitivePlan::kScratch, primitives->reserve(dense_b.get_size()), dense_b};
      primitives->add_reorder({0, kB, 0, b}, b_argument);
    }
    if (problem.addend.present() && !plan.fused_bias) primitives->add_reorder({0, kOut, 0, out}, out_argument);
  }
  if (plan.constant_b && (plan.copy_b || descriptor.weights_desc() != b)) {
    b_argument = primitives->keep(DNNL_ARG_WEIGHTS, kB, b, descriptor.weights_desc());
  }
  std::vector<PrimitivePlan::Argument> arguments = {a_argument, b_argument, out_argument};
  if (plan.fused_bias) arguments.push_back({DNNL_ARG_BIAS, kAddend, 0, bias});
  primitives->add_step(dnnl::matmul(descriptor), descriptor, std::move(arguments));
  if (reference) primitives->add_reorder(out_argument, {0, kOut, 0, out});
  return primitives;
}

std::shared_ptr<PrimitivePlan> find_primitives(const MatmulPlan& plan) {
  const Problem& problem = plan.problem;
  PlanKey key(PlanKind::kMatmul);
  key.add(plan.compute);
  for (const int64_t size : {problem.batch, problem.m, problem.n, problem.k}) key.add(size);
  for (const Matrix* matrix : {&problem.out, &problem.a, &problem.b}) {
    key.add(matrix->batch_stride);
    key.add(matrix->row_stride);
    key.add(matrix->col_stride);
  }
  key.add(std::bit_cast<int64_t>(problem.alpha));
  key.add(plan.fused_bias ? 1 : 0);
  key.add(!plan.constant_b ? 0 : plan.copy_b ? 2 : 1);
  key.add(problem.addend.present() && !plan.fused_bias ? std::bit_cast<int64_t>(problem.beta) : 0);
  return find_or_create_plan(key,
                             [&] { return with_onednn_errors("mydev.matmul", [&] { return make_primitives(plan); }); });
}

bool same_place(const Matrix& a, const Matrix& b) noexcept {
  return a.data == b.data && a.batch_stride == b.batch_stride && a.row_stride == b.row_stride &&
         a.col_stride == b.col_stride;
}

void make_dense(Matrix& matrix, mydev_dtype dtype, int64_t rows, int64_t columns) noexcept {
  matrix = {nullptr, dtype, rows * columns, columns, 1, -1};
}

WideMatrix wide_matrix(const Matrix& matrix, int64_t index) noexcept {
  if (!matrix.present()) return {nullptr, 0, 0};
  return {matrix.data + index * matrix.batch_stride * dtype_size(matrix.dtype), matrix.row_stride, matrix.col_stride};
}

WideProduct wide_product_of(const Problem& problem, int64_t index) noexcept {
  return {problem.a.dtype,
          problem.out.dtype,
          problem.m,
          problem.n,
          problem.k,
          wide_matrix(problem.out, index),
          wide_matrix(problem.a, index),
          wide_matrix(problem.b, index),
          wide_matrix(problem.addend, index),
          problem.alpha,
          problem.beta};
}

void plan_wide(MatmulPlan& plan) {
  Problem& problem = plan.problem;
  plan.compute = problem.out.dtype;
  if (problem.alpha == 0) problem.k = 0;
  plan.algorithm = is_of_dots(problem) ? Algorithm::kWideDots : Algorithm::kWide;
  if (plan.algorithm == Algorithm::kWideDots) return;
  const WideProduct product = wide_product_of(problem, 0);
  const WideProductFunctions& functions = wide_product_functions();
  plan.wide_pieces = std::min<int64_t>(problem.batch * functions.tasks(product), parallel_threads());
  plan.wide_piece_bytes = functions.task_bytes(product);
  plan.wide_offset = plan.scratch_bytes;
  plan.scratch_bytes += static_cast<uint64_t>(plan.wide_pieces) * plan.wide_piece_bytes;
}

// Whether oneDNN multiplies f32 at half its speed: its loops for AVX2 read rows of b as they lie unless there are many,
// and rows that are a multiple of these bytes apart take each other's places in the first cache. The limits are what
// was measured; benchmarks/matmul.py has such products.
bool slows_onednn(const Problem& problem) {
  if (instruction_set() == InstructionSet::kAvx512 || problem.out.dtype != MYDEV_F32 || problem.a.dtype != MYDEV_F32) {
    return false;
  }
  const bool transposed = problem.a.row_stride == 1;
  const bool few = problem.m < 12;
  const bool many = problem.m >= 1024 && problem.n >= 1024 && (problem.k >= 1024 || transposed);
  const int64_t apart = problem.b.row_stride * int64_t{sizeof(float)};
  const int64_t multiple = transposed && problem.n < 512 ? 1024 : 2048;
  return problem.b.col_stride == 1 && apart > 0 && apart % multiple == 0 && !few && !many;
}

MatmulPlan plan_matmul(const mydev_frame& frame, uint64_t constants) {
  MatmulPlan plan;
  Problem& problem = plan.problem;
  problem = problem_of(frame);
  if (problem.batch == 0 || problem.m == 0 || problem.n == 0) return plan;
  const mydev_dtype dtype = problem.out.dtype;
  normalize(problem.a, problem.m, problem.k);
  normalize(problem.b, problem.k, problem.n);
  normalize(problem.out, problem.m, problem.n);
  normalize(problem.addend, problem.m, problem.n);
  plan.given_a = problem.a;
  plan.given_b = problem.b;
  plan.given_out = problem.out;
  if (takes_integers(problem)) {
    plan.algorithm = Algorithm::kIntegers;
    plan.one_thread = problem.batch * problem.m * problem.n * problem.k <= kOneThreadMultiplications;
  } else if (!is_computed_in_f32(dtype)) {
    plan_wide(plan);
  } else if (problem.k == 0 || problem.alpha == 0) {
    plan.zero_operands = true;
    problem.k = 1;
    problem.alpha = 1;
    problem.a = {nullptr, MYDEV_F32, 0, 0, 0, -1};
    problem.b = {nullptr, MYDEV_F32, 0, 0, 0, -1};
    if (dtype != MYDEV_F32) {
      plan.copy_out = true;
      make_dense(problem.out, MYDEV_F32, problem.m, problem.n);
    }
    plan.algorithm = Algorithm::kSmall;
    plan.a_offset = reserve(plan, 1);
  } else {
    const int64_t multiplications = problem.m * problem.n * problem.k;
    const bool packs = problem.b.row_stride == 1 && (problem.b.col_stride != 1 || problem.n == 1);
    const int64_t b_elements = problem.n * problem.k;
    const bool small = multiplications <= kSmallMultiplications && problem.k <= kSmallGemmMaxK &&
                       !(packs && b_elements > kSmallPacked);
    const bool pays = b_elements >= problem.m * kDotElementsPerRow || problem.n == 1;
    const bool dot = problem.m <= kDotRows && pays && packs && problem.a.col_stride == 1 && !small;
    const bool rows =
        problem.m <= kSumRows && b_elements >= kSumElements && problem.b.col_stride == 1 && problem.n >= 64 && !small;
    const bool is_bf16 = dtype == MYDEV_BF16 && problem.a.dtype == MYDEV_BF16 && onednn_supports(MYDEV_BF16);
    const bool reads_b = problem.b.dtype == MYDEV_F32 || problem.b.dtype == MYDEV_F16 ||
                         (problem.b.dtype == MYDEV_BF16 && (!is_bf16 || problem.m <= kBf16Rows));
    const bool wide = !small && !dot && !rows && slows_onednn(problem);
    plan.algorithm = small             ? Algorithm::kSmall
                     : wide            ? Algorithm::kWide
                     : dot && reads_b  ? Algorithm::kDot
                     : rows && reads_b ? Algorithm::kRows
                                       : Algorithm::kOnednn;
    const bool own_loops = plan.algorithm != Algorithm::kOnednn;
    plan.compute = is_bf16 && !own_loops ? MYDEV_BF16 : MYDEV_F32;
    const bool convert = problem.a.dtype != plan.compute;
    plan.copy_a = convert || !(own_loops || fits_onednn(problem.a, problem.m, problem.k));
    plan.copy_b = own_loops ? convert && small : convert || !fits_onednn(problem.b, problem.k, problem.n);
    plan.copy_out = dtype != plan.compute || !(own_loops || fits_onednn(problem.out, problem.m, problem.n));
    if (wide) plan_wide(plan);
  }
  if (plan.copy_a) {
    make_dense(problem.a, plan.compute, problem.m, problem.k);
    plan.a_offset = reserve(plan, problem.batch * problem.m * problem.k);
  }
  plan.constant_b = plan.algorithm == Algorithm::kOnednn && (constants >> plan.given_b.buffer & 1) != 0;
  if (plan.copy_b) {
    make_dense(problem.b, plan.compute, problem.k, problem.n);
    if (!plan.constant_b) plan.b_offset = reserve(plan, problem.batch * problem.k * problem.n);
  }
  if (plan.copy_out) {
    make_dense(problem.out, plan.compute, problem.m, problem.n);
    plan.out_offset = reserve(plan, problem.batch * problem.m * problem.n);
  }
  if (plan.algorithm == Algorithm::kOnednn) {
    plan.one_thread = problem.batch * problem.m * problem.n * problem.k <= kOneThreadMultiplications;
    const OneThread alone(plan.one_thread);
    const Matrix& addend = problem.addend;
    plan.fused_bias = addend.present() && problem.alpha == problem.beta && addend.dtype == plan.compute &&
                      (addend.row_stride == 0 || problem.m == 1) && (addend.batch_stride == 0 || problem.batch == 1) &&
                      (addend.col_stride == 1 || problem.n == 1) && addend.data != plan.given_out.data;
    plan.primitives = find_primitives(plan);
    plan.primitives_offset = plan.scratch_bytes;
    plan.scratch_bytes += plan.primitives->scratch_bytes();
    const uint64_t kept_bytes = plan.primitives->kept_bytes();
    if (kept_bytes != 0) plan.kept = std::make_shared<KeptOperands>(kept_bytes);
  }
  return plan;
}

// Copies a batch of matrices, whatever their strides and dtypes.
void copy(const mydev_frame& frame, const Problem& problem, int64_t rows, int64_t columns, const Matrix& from,
          const Matrix& to) {
  const std::array<int64_t, 3> sizes = {problem.batch, rows, columns};
  const std::array<int64_t, 3> to_strides = {to.batch_stride, to.row_stride, to.col_stride};
  const std::array<int64_t, 3> from_strides = {from.batch_stride, from.row_stride, from.col_stride};
  nested_copy(frame, "mydev.matmul", {to.data, sizes.data(), to_strides.data(), 3, static_cast<int16_t>(to.dtype), 0},
              {from.data, sizes.data(), from_strides.data(), 3, static_cast<int16_t>(from.dtype), 0});
}

F32Matrix f32_matrix(const Matrix& matrix, int64_t index) noexcept {
  if (!matrix.present()) return {nullptr, 0, 0};
  return {reinterpret_cast<float*>(matrix.data) + index * matrix.batch_stride, matrix.row_stride, matrix.col_stride};
}

GemmFactor gemm_factor(const Matrix& matrix, int64_t index) noexcept {
  return {matrix.data + index * matrix.batch_stride * dtype_size(matrix.dtype), matrix.row_stride, matrix.col_stride,
          matrix.dtype};
}

void run_own_loops(const MatmulPlan& plan) {
  const Problem& problem = plan.problem;
  const SmallGemmFunctions& functions = small_gemm_functions();
  const auto gemm_at = [&](int64_t index) {
    return SmallGemm{problem.m,
                     problem.n,
                     problem.k,
                     f32_matrix(problem.out, index),
                     f32_matrix(problem.a, index),
                     gemm_factor(problem.b, index),
                     f32_matrix(problem.addend, index),
                     static_cast<float>(problem.alpha),
                     static_cast<float>(problem.beta)};
  };
  const int64_t multiplications = problem.m * problem.n * problem.k;
  if (plan.algorithm != Algorithm::kSmall && problem.batch == 1) {
    const SmallGemm gemm = gemm_at(0);
    const auto run = plan.algorithm == Algorithm::kDot ? functions.dot : functions.rows;
    const int64_t blocks = (problem.n + 15) / 16;
    parallel_for(blocks, std::max<int64_t>(1, kSmallMultiplications * blocks / multiplications),
                 [&](int64_t begin, int64_t end) { run(gemm, begin * 16, std::min(problem.n, end * 16)); });
    return;
  }
  parallel_for(problem.batch, std::max<int64_t>(1, 2 * kSmallMultiplications / multiplications),
               [&](int64_t begin, int64_t end) {
                 for (int64_t index = begin; index < end; ++index) {
                   if (plan.algorithm == Algorithm::kDot) {
                     functions.dot(gemm_at(index), 0, problem.n);
                   } else if (plan.algorithm == Algorithm::kRows) {
                     functions.rows(gemm_at(index), 0, problem.n);
                   } else {
                     functions.small(gemm_at(index));
                   }
                 }
               });
}

void run_wide(const MatmulPlan& plan, char* memory) {
  const Problem& problem = plan.problem;
  const WideProductFunctions& functions = wide_product_functions();
  const int64_t tasks = functions.tasks(wide_product_of(problem, 0)), all = problem.batch * tasks;
  const int64_t multiplications = problem.batch * problem.m * problem.n * std::max<int64_t>(problem.k, 1);
  const int64_t fork = dtype_size(problem.a.dtype) <= 2 ? kShortForkMultiplications : kWideForkMultiplications;
  const int64_t grain = std::max<int64_t>(1, fork * plan.wide_pieces / multiplications);
  parallel_for(plan.wide_pieces, grain, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      for (int64_t task = all * piece / plan.wide_pieces; task < all * (piece + 1) / plan.wide_pieces; ++task) {
        functions.run(wide_product_of(problem, task / tasks), task % tasks,
                      memory + static_cast<uint64_t>(piece) * plan.wide_piece_bytes);
      }
    }
  });
}

void run_wide_dots(const MatmulPlan& plan) {
  const Problem& problem = plan.problem;
  const WideProductFunctions& functions = wide_product_functions();
  const int64_t columns = problem.batch * problem.n;
  const int64_t grain = kShortForkMultiplications / (problem.m * std::max<int64_t>(problem.k, 1)) + 1;
  parallel_for(columns, grain, [&](int64_t begin, int64_t end) {
    for (int64_t column = begin; column < end;) {
      const int64_t index = column / problem.n, first = column % problem.n;
      const int64_t last = std::min(problem.n, first + end - column);
      functions.dots(wide_product_of(problem, index), first, last);
      column += last - first;
    }
  });
}

// Writes the constant b as the plan's primitives want it.
void keep_b(const mydev_frame& frame, const MatmulPlan& plan, void* kept) {
  Matrix b = plan.problem.b;
  std::vector<std::byte> converted;
  if (plan.copy_b) {
    const int64_t elements = plan.problem.batch * plan.problem.k * plan.problem.n;
    converted.resize(static_cast<size_t>(elements * dtype_size(plan.compute)));
    b.data = reinterpret_cast<char*>(converted.data());
    copy(frame, plan.problem, plan.problem.k, plan.problem.n, plan.given_b, b);
  }
  const std::array<void*, 4> operands = {nullptr, nullptr, b.data, nullptr};
  char* const scratch = static_cast<char*>(frame.scratch) + plan.primitives_offset;
  const OneThread alone(plan.one_thread);
  with_onednn_errors("mydev.matmul", [&] { plan.primitives->prepare(operands, scratch, kept); });
}

void run(const mydev_frame& frame) {
  MatmulPlan plan = planned<MatmulPlan>(frame);  // a copy, which gets addresses
  plan.move_to(frame);
  if (plan.algorithm == Algorithm::kNothing) return;
  Problem& problem = plan.problem;
  char* const scratch = static_cast<char*>(frame.scratch);
  if (plan.zero_operands) {
    problem.a.data = problem.b.data = scratch + plan.a_offset;
    std::memset(problem.a.data, 0, sizeof(float));
  }
  if (plan.copy_a) {
    problem.a.data = scratch + plan.a_offset;
    copy(frame, problem, problem.m, problem.k, plan.given_a, problem.a);
  }
  void* kept = nullptr;
  if (plan.kept != nullptr) {
    kept = plan.kept->filled([&](void* memory) { keep_b(frame, plan, memory); });
  } else if (plan.copy_b) {
    problem.b.data = scratch + plan.b_offset;
    copy(frame, problem, problem.k, problem.n, plan.given_b, problem.b);
  }
  if (plan.copy_out) problem.out.data = scratch + plan.out_offset;
  const bool own_loops = plan.algorithm != Algorithm::kOnednn;
  if (problem.addend.present() && !plan.fused_bias) {
    // oneDNN adds to what the result holds; own loops read any f32 addend.
    const bool in_place = same_place(problem.addend, problem.out);
    const bool readable = own_loops && problem.addend.dtype == plan.compute;
    if (!in_place && !readable) {
      copy(frame, problem, problem.m, problem.n, problem.addend, problem.out);
      problem.addend = problem.out;
    }
  }
  if (plan.algorithm == Algorithm::kWide) {
    run_wide(plan, scratch + plan.wide_offset);
  } else if (plan.algorithm == Algorithm::kWideDots) {
    run_wide_dots(plan);
  } else if (plan.algorithm == Algorithm::kIntegers) {
    const OneThread alone(plan.one_thread);
    multiply_integers(problem);
  } else if (own_loops) {
    run_own_loops(plan);
  } else {
    const OneThread alone(plan.one_thread);
    const std::array<void*, 4> operands = {problem.out.data, problem.a.data, problem.b.data, problem.addend.data};
    with_onednn_errors("mydev.matmul", [&] { plan.primitives->run(operands, scratch + plan.primitives_offset, kept); });
  }
  if (plan.copy_out) copy(frame, problem, problem.m, problem.n, problem.out, plan.given_out);
}

mydev_code matmul_entry(const mydev_frame* frame) {
  return run_entry(*frame, [&] { run(*frame); });
}

constexpr mydev_limits kAllDtypes = {sizeof(mydev_limits), ~uint64_t{0}, -1, 0};
constexpr mydev_kernel kMatmulRecords[] = {{.struct_size = sizeof(mydev_kernel),
                                            .name = "mydev.matmul",
                                            .entry = matmul_entry,
                                            .limits = &kAllDtypes,
                                            .plan = plan_entry<MatmulPlan, plan_matmul>}};

}  // namespace

std::span<const mydev_kernel> matmul() {
  return kMatmulRecords;
}

}  // namespace mydev::kernels
