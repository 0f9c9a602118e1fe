#include "cuda_driver/kernels/matmul.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <memory>
#include <optional>

#include "cuda_driver/kernels/cublaslt.h"
#include "cuda_driver/kernels/matmul_problem.h"

namespace mydev::cuda_driver {

namespace {

constexpr uint64_t kWorkspaceLimit = 32 << 20;
constexpr uint32_t kFullAlignment = 16;  // from which the fastest kernels work

// A descriptor of cuBLASLt's, destroyed with this.
template <typename Handle>
class LtDescriptor {
 public:
  using Destroy = LtStatus (*)(Handle);
  explicit LtDescriptor(Destroy destroy) : destroy_(destroy) {}
  ~LtDescriptor() {
    if (handle_ != nullptr) destroy_(handle_);
  }
  LtDescriptor(const LtDescriptor&) = delete;
  LtDescriptor& operator=(const LtDescriptor&) = delete;

  Handle* place() noexcept { return &handle_; }
  Handle get() const noexcept { return handle_; }

 private:
  const Destroy destroy_;
  Handle handle_ = nullptr;
};

// alpha or beta as cuBLASLt reads it.
class LtScale {
 public:
  LtScale(LtType type, double value) {
    switch (type) {
      case LtType::kF64:
        set(value);
        break;
      case LtType::kC64:
        set(std::complex<float>(static_cast<float>(value)));
        break;
      case LtType::kC128:
        set(std::complex<double>(value));
        break;
      case LtType::kS32:
        set(static_cast<int32_t>(value));
        break;
      default:
        set(static_cast<float>(value));
    }
  }
  const void* data() const noexcept { return bytes_; }

 private:
  template <typename Number>
  void set(Number number) {
    std::memcpy(bytes_, &number, sizeof(number));
  }

  alignas(16) char bytes_[16] = {};
};

class LtMatrixLayout : public LtDescriptor<LtLayout> {
 public:
  LtMatrixLayout(LtType type, const ColumnMajor& matrix, int64_t batch)
      : LtDescriptor(cublaslt().cublasLtMatrixLayoutDestroy) {
    check(cublaslt().cublasLtMatrixLayoutCreate(place(), type, static_cast<uint64_t>(matrix.rows),
                                                static_cast<uint64_t>(matrix.columns), matrix.stride),
          "cublasLtMatrixLayoutCreate of ", matrix.rows, " x ", matrix.columns);
    if (batch == 1) return;
    const auto count = static_cast<int32_t>(batch);
    set(LtLayoutAttribute::kBatchCount, &count, sizeof(count));
    set(LtLayoutAttribute::kBatchStride, &matrix.batch_stride, sizeof(matrix.batch_stride));
  }

 private:
  void set(LtLayoutAttribute attribute, const void* value, size_t bytes) {
    check(cublaslt().cublasLtMatrixLayoutSetAttribute(get(), attribute, value, bytes),
          "cublasLtMatrixLayoutSetAttribute ", static_cast<int>(attribute));
  }
};

class LtOperation : public LtDescriptor<LtProduct> {
 public:
  explicit LtOperation(const MatmulProblem& problem) : LtDescriptor(cublaslt().cublasLtMatmulDescDestroy) {
    check(cublaslt().cublasLtMatmulDescCreate(place(), problem.types->compute, problem.types->sum_scale),
          "cublasLtMatmulDescCreate");
    const int32_t a = problem.a.transposed ? 1 : 0, b = problem.b.transposed ? 1 : 0;
    set(LtProductAttribute::kTransposeA, &a, sizeof(a));
    set(LtProductAttribute::kTransposeB, &b, sizeof(b));
    if (!problem.bias) return;
    set(LtProductAttribute::kEpilogue, &kLtEpilogueBias, sizeof(kLtEpilogueBias));
  }
  void set_bias(const void* bias) { set(LtProductAttribute::kBias, static_cast<const void*>(&bias), sizeof(bias)); }

 private:
  void set(LtProductAttribute attribute, const void* value, size_t bytes) {
    check(cublaslt().cublasLtMatmulDescSetAttribute(get(), attribute, value, bytes), "cublasLtMatmulDescSetAttribute ",
          static_cast<int>(attribute));
  }
};

class LtChoicePreference : public LtDescriptor<LtPreference> {
 public:
  explicit LtChoicePreference(uint32_t alignment) : LtDescriptor(cublaslt().cublasLtMatmulPreferenceDestroy) {
    using enum LtPreferenceAttribute;
    check(cublaslt().cublasLtMatmulPreferenceCreate(place()), "cublasLtMatmulPreferenceCreate");
    set(kMaxWorkspaceBytes, kWorkspaceLimit);
    set(kReductionSchemes, kLtReductionInComputeType);
    for (const auto attribute : {kAlignmentA, kAlignmentB, kAlignmentC, kAlignmentD}) set(attribute, alignment);
  }

 private:
  template <typename Value>
  void set(LtPreferenceAttribute attribute, const Value& value) {
    check(cublaslt().cublasLtMatmulPreferenceSetAttribute(get(), attribute, &value, sizeof(value)),
          "cublasLtMatmulPreferenceSetAttribute ", static_cast<int>(attribute));
  }
};

// A product of a form of operands, and the algorithms for it.
struct MatmulChoice {
  MatmulChoice(CudaDevice& device, const MatmulProblem& given)
      : problem(given),
        operation(problem),
        a(problem.types->factor, problem.a, problem.batch),
        b(problem.types->factor, problem.b, problem.batch),
        c(problem.types->out, problem.bias ? problem.d : problem.c, problem.batch),
        d(problem.types->out, problem.d, problem.batch),
        handle(cublaslt_handle(device)) {
    const uint32_t least =
        std::min(problem.alignment, std::min(bytes_of(problem.types->factor), bytes_of(problem.types->out)));
    aligned = choose(problem.alignment);
    if (aligned) any = least == problem.alignment ? aligned : choose(least);
    for (const auto& chosen_one : {aligned, any}) {
      if (chosen_one) scratch_bytes = std::max<uint64_t>(scratch_bytes, chosen_one->workspace_bytes);
    }
    if (scratch_bytes != 0) scratch_bytes += kWorkspaceAlignment;
  }

  // The algorithm for operands of this alignment; none if cuBLASLt has none.
  std::optional<LtHeuristic> choose(uint32_t alignment) {
    // The address of the vector that is added tells its alignment.
    if (problem.bias) operation.set_bias(reinterpret_cast<const void*>(uintptr_t{1} << 20 | alignment));
    const LtChoicePreference preference(alignment);
    LtHeuristic best{};
    int count = 0;
    const LtStatus status = cublaslt().cublasLtMatmulAlgoGetHeuristic(
        handle, operation.get(), a.get(), b.get(), c.get(), d.get(), preference.get(), 1, &best, &count);
    const bool knows_none = status == LtStatus::kNotSupported || status == LtStatus::kInvalidValue ||
                            status == LtStatus::kArchitectureMismatch;
    if (!knows_none) check(status, "cublasLtMatmulAlgoGetHeuristic");
    if (status == LtStatus::kSuccess && count > 0 && best.state == LtStatus::kSuccess) return best;
    refusal = status == LtStatus::kSuccess ? text_of(LtStatus::kNotSupported) : text_of(status);
    return std::nullopt;
  }

  const MatmulProblem problem;
  LtOperation operation;
  LtMatrixLayout a, b, c, d;
  LtHandle handle;
  std::optional<LtHeuristic> aligned, any;  // for operands of the problem's alignment; for all others
  std::string refusal;                      // if it has neither
  uint64_t scratch_bytes = 0;
  std::mutex bias_mutex;  // the operation has the address of the vector that is added
};

bool is_aligned(const mydev_frame& frame, const MatmulProblem& problem) {
  return std::ranges::all_of(problem.matrices(), [&](const ColumnMajor* matrix) {
    return reinterpret_cast<uintptr_t>(frame.buffers[matrix->buffer].data) % problem.alignment == 0;
  });
}

std::shared_ptr<MatmulChoice> choose(const mydev_frame& frame) {
  static auto& choices = *new ChoiceCache<MatmulChoice>;
  const MatmulProblem problem = matmul_problem(frame);
  std::vector<int64_t> key = problem.key();
  key.push_back(frame.device);
  std::shared_ptr<MatmulChoice> choice = choices.find_or_make(key, [&] {
    CudaDevice& device = device_at(frame.device);
    const CurrentContext context(device);
    return std::make_shared<MatmulChoice>(device, problem);
  });
  require(choice->aligned.has_value(), MYDEV_UNIMPLEMENTED,
          "multiplies by cuBLASLt, which has no algorithm for these operands: ", choice->refusal);
  require(choice->any.has_value() || is_aligned(frame, problem), MYDEV_UNIMPLEMENTED,
          "multiplies by cuBLASLt, which takes these operands at multiples of ", problem.alignment, " bytes");
  return choice;
}

mydev_code plan_matmul(const mydev_frame* frame, mydev_plan* out) {
  return plan_choice(*frame, *out, [&] { return choose(*frame); });
}

void enqueue_matmul(CudaStream& stream, const mydev_frame& frame) {
  auto& choice = chosen<MatmulChoice>(frame);
  const MatmulProblem& problem = choice.problem;
  const auto& algorithm = is_aligned(frame, problem) ? choice.aligned : choice.any;
  if (!algorithm) {
    raise(MYDEV_INVALID_ARGUMENT, "mydev.matmul: an operand does not lie at a multiple of ", problem.alignment,
          " bytes, as it did when cuBLASLt was asked for an algorithm");
  }
  const auto data = [&](const ColumnMajor& matrix) { return frame.buffers[matrix.buffer].data; };
  const LtScale alpha(problem.types->sum_scale, frame.attributes[0].value.f);
  const LtScale beta(problem.types->sum_scale, problem.bias ? 0 : frame.attributes[1].value.f);
  std::unique_lock<std::mutex> lock;
  if (problem.bias) {
    lock = std::unique_lock(choice.bias_mutex);
    choice.operation.set_bias(data(problem.c));
  }
  void* const d = data(problem.d);
  check(cublaslt().cublasLtMatmul(choice.handle, choice.operation.get(), alpha.data(), data(problem.a), choice.a.get(),
                                  data(problem.b), choice.b.get(), beta.data(), problem.bias ? d : data(problem.c),
                                  choice.c.get(), d, choice.d.get(), &algorithm->algorithm, aligned_workspace(frame),
                                  algorithm->workspace_bytes, stream.ref()),
        "cublasLtMatmul of ", problem.d.rows, " x ", problem.d.columns, ", a batch of ", problem.batch);
}

}  // namespace

const LibraryKernel& matmul_kernel() {
  static const LibraryKernel& kernel = *new LibraryKernel("mydev.matmul", kMatmulLimits, plan_matmul, enqueue_matmul);
  return kernel;
}

}  // namespace mydev::cuda_driver
