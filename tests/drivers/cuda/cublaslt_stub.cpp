// cuBLASLt for machines without a GPU, for csrc/cuda_driver: it multiplies on the processor, in the order of the stream
// of cuda_stub. It refuses what cuBLASLt refuses: operands that do not fit together, 8-bit factors that do not lie as
// its kernels need them, addresses that are aligned less than the algorithm needs, workspace that is too small.
//
// stub_heuristics() counts the questions for an algorithm, stub_products() the products. Environment:
// CUDA_STUB_FAIL=ENTRY:STATUS, of an entry that always fails.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>

#include "cuda_driver/library/cublaslt_api.h"
#include "stub_memory.h"
#include "stub_numbers.h"
#include "stub_stream.h"

namespace cuda = mydev::cuda_driver;
using cuda::LtCompute;
using cuda::LtStatus;
using cuda::LtType;

namespace {

std::atomic<int64_t> heuristics{0}, products{0};

struct StubProduct {
  LtCompute compute;
  LtType scale;
  int32_t transpose_a = 0, transpose_b = 0;
  uint32_t epilogue = 1;
  const void* bias = nullptr;
};
struct StubLayout {
  LtType type;
  uint64_t rows, columns;
  int64_t stride;
  int32_t batch = 1;
  int64_t batch_stride = 0;
};
struct StubPreference {
  uint64_t workspace_bytes = 0;
  uint32_t schemes = 7;
  uint32_t alignments[4] = {256, 256, 256, 256};
};

// An algorithm is for operands of one form.
struct StubAlgorithm {
  uint32_t alignments[4];
  uint32_t workspace_bytes;
  uint32_t magic;
  uint64_t form;
};
constexpr uint32_t kMagic = 0x57ab1e;
static_assert(sizeof(StubAlgorithm) <= sizeof(cuda::LtAlgorithm));

template <typename Stub, typename Handle>
Stub& as(Handle handle) {
  return *reinterpret_cast<Stub*>(handle);
}

LtStatus failure(const char* entry) {
  return static_cast<LtStatus>(forced(entry));
}

// --- what there is an algorithm for ----------------------------------------------------------------------------------

struct Matrices {
  const StubProduct& product;
  const StubLayout &a, &b, &c, &d;

  uint64_t inner() const { return product.transpose_a != 0 ? a.rows : a.columns; }

  bool fit() const {
    const uint64_t m = product.transpose_a != 0 ? a.columns : a.rows;
    const uint64_t n = product.transpose_b != 0 ? b.rows : b.columns;
    const uint64_t k = product.transpose_b != 0 ? b.columns : b.rows;
    bool fits = m == d.rows && n == d.columns && k == inner() && c.rows == d.rows && c.columns == d.columns &&
                a.type == b.type && c.type == d.type;
    for (const StubLayout* each : {&a, &b, &c, &d}) {
      fits &= each->batch == d.batch && each->rows > 0 && each->columns > 0;
      fits &= each->stride >= static_cast<int64_t>(each->rows) || (each == &c && each->stride == 0);
    }
    return fits;
  }

  bool known() const {
    const auto is = [&](LtCompute compute, LtType scale, LtType factor, LtType out) {
      return product.compute == compute && product.scale == scale && a.type == factor && d.type == out;
    };
    using enum LtType;
    if (is(LtCompute::kS32, kS32, kS8, kS32)) return lies_for_tensor_cores(4);
    for (const LtType out : {kF16, kBf16, kF32}) {
      if (is(LtCompute::kF32, kF32, kF8e4m3, out)) return lies_for_tensor_cores(16);
    }
    for (const LtType half : {kF16, kBf16}) {
      if (is(LtCompute::kF32, kF32, half, half) || is(LtCompute::kF32, kF32, half, kF32)) return true;
    }
    if (is(LtCompute::kF32, kF32, kF32, kF32)) return true;
    const bool is_wide = is(LtCompute::kF64, kF64, kF64, kF64) || is(LtCompute::kF32, kC64, kC64, kC64) ||
                         is(LtCompute::kF64, kC128, kC128, kC128);
    return is_wide && product.epilogue == 1;
  }

  bool lies_for_tensor_cores(uint64_t multiple) const {
    const auto divides = [&](uint64_t number) { return number % multiple == 0; };
    return product.transpose_a != 0 && product.transpose_b == 0 && product.epilogue == 1 && divides(d.rows) &&
           divides(inner()) && divides(static_cast<uint64_t>(a.stride)) && divides(static_cast<uint64_t>(b.stride)) &&
           (multiple == 4 || divides(d.columns));
  }

  // Two forms of operands hardly ever have the same.
  uint64_t form() const {
    uint64_t hash = 1469598103934665603U;
    const auto add = [&](uint64_t number) { hash = (hash ^ number) * 1099511628211U; };
    for (const StubLayout* each : {&a, &b, &c, &d}) {
      for (const uint64_t number :
           {static_cast<uint64_t>(each->type), each->rows, each->columns, static_cast<uint64_t>(each->stride),
            static_cast<uint64_t>(each->batch), static_cast<uint64_t>(each->batch_stride)}) {
        add(number);
      }
    }
    for (const int32_t number : {product.transpose_a, product.transpose_b}) add(static_cast<uint64_t>(number));
    add(product.epilogue);
    return hash;
  }
};

// Values at the time of the call, and the operands' addresses.
struct Call {
  StubProduct product;
  StubLayout a, b, c, d;
  Number alpha, beta;
  const char *a_data, *b_data, *c_data;
  char* d_data;
  char* workspace;
  size_t workspace_bytes;

  void run() const {
    std::fill_n(workspace, workspace_bytes, static_cast<char>(0x7f));  // others must not use it meanwhile
    for (int32_t i = 0; i < d.batch; ++i) {
      for (uint64_t column = 0; column < d.columns; ++column) {
        for (uint64_t row = 0; row < d.rows; ++row) run_element(i, row, column);
      }
    }
  }

 private:
  static size_t offset(const StubLayout& layout, int32_t batch, uint64_t row, uint64_t column) {
    return static_cast<size_t>(batch * layout.batch_stride + static_cast<int64_t>(row) +
                               static_cast<int64_t>(column) * layout.stride) *
           bytes_of(layout.type);
  }
  void run_element(int32_t i, uint64_t row, uint64_t column) const {
    const bool left = product.transpose_a != 0, right = product.transpose_b != 0;
    const uint64_t inner = left ? a.rows : a.columns;
    Number sum = 0;
    for (uint64_t k = 0; k < inner; ++k) {
      const Number x = read(a.type, a_data + (left ? offset(a, i, k, row) : offset(a, i, row, k)));
      const Number y = read(b.type, b_data + (right ? offset(b, i, column, k) : offset(b, i, k, column)));
      sum += x * y;
    }
    sum *= alpha;
    if (beta != 0.0) sum += beta * read(c.type, c_data + offset(c, i, row, column));
    if (product.epilogue == cuda::kLtEpilogueBias) {
      sum += read(d.type, static_cast<const char*>(product.bias) + row * bytes_of(d.type));
    }
    write(d.type, d_data + offset(d, i, row, column), sum);
  }
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int64_t stub_heuristics() {
  return heuristics;
}
EXPORT int64_t stub_products() {
  return products;
}

EXPORT const char* cublasLtGetStatusName(LtStatus status) {
  switch (status) {
    case LtStatus::kNotInitialized:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case LtStatus::kInvalidValue:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case LtStatus::kInternalError:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case LtStatus::kNotSupported:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS_OF_THE_STUB";
  }
}
EXPORT LtStatus cublasLtCreate(cuda::LtHandle* handle) {
  if (const LtStatus status = failure("cublasLtCreate"); status != LtStatus::kSuccess) return status;
  static int place = 0;
  *handle = reinterpret_cast<cuda::LtHandle>(&place);
  return LtStatus::kSuccess;
}

EXPORT LtStatus cublasLtMatmulDescCreate(cuda::LtProduct* product, LtCompute compute, LtType scale) {
  *product = reinterpret_cast<cuda::LtProduct>(new StubProduct{compute, scale});
  return LtStatus::kSuccess;
}
EXPORT LtStatus cublasLtMatmulDescDestroy(cuda::LtProduct product) {
  delete &as<StubProduct>(product);
  return LtStatus::kSuccess;
}
template <typename Field>
static LtStatus set(Field& field, const void* value, size_t bytes) {
  if (bytes != sizeof(field)) return LtStatus::kInvalidValue;
  std::memcpy(&field, value, bytes);
  return LtStatus::kSuccess;
}
EXPORT LtStatus cublasLtMatmulDescSetAttribute(cuda::LtProduct product, cuda::LtProductAttribute attribute,
                                               const void* value, size_t bytes) {
  auto& stub = as<StubProduct>(product);
  switch (attribute) {
    case cuda::LtProductAttribute::kTransposeA:
      return set(stub.transpose_a, value, bytes);
    case cuda::LtProductAttribute::kTransposeB:
      return set(stub.transpose_b, value, bytes);
    case cuda::LtProductAttribute::kEpilogue:
      return set(stub.epilogue, value, bytes);
    case cuda::LtProductAttribute::kBias:
      return set(stub.bias, value, bytes);
  }
  return LtStatus::kInvalidValue;
}

EXPORT LtStatus cublasLtMatrixLayoutCreate(cuda::LtLayout* layout, LtType type, uint64_t rows, uint64_t columns,
                                           int64_t stride) {
  *layout = reinterpret_cast<cuda::LtLayout>(new StubLayout{type, rows, columns, stride});
  return LtStatus::kSuccess;
}
EXPORT LtStatus cublasLtMatrixLayoutDestroy(cuda::LtLayout layout) {
  delete &as<StubLayout>(layout);
  return LtStatus::kSuccess;
}
EXPORT LtStatus cublasLtMatrixLayoutSetAttribute(cuda::LtLayout layout, cuda::LtLayoutAttribute attribute,
                                                 const void* value, size_t bytes) {
  auto& stub = as<StubLayout>(layout);
  if (attribute == cuda::LtLayoutAttribute::kBatchCount) return set(stub.batch, value, bytes);
  return attribute == cuda::LtLayoutAttribute::kBatchStride ? set(stub.batch_stride, value, bytes)
                                                            : LtStatus::kInvalidValue;
}

EXPORT LtStatus cublasLtMatmulPreferenceCreate(cuda::LtPreference* preference) {
  *preference = reinterpret_cast<cuda::LtPreference>(new StubPreference);
  return LtStatus::kSuccess;
}
EXPORT LtStatus cublasLtMatmulPreferenceDestroy(cuda::LtPreference preference) {
  delete &as<StubPreference>(preference);
  return LtStatus::kSuccess;
}
EXPORT LtStatus cublasLtMatmulPreferenceSetAttribute(cuda::LtPreference preference,
                                                     cuda::LtPreferenceAttribute attribute, const void* value,
                                                     size_t bytes) {
  auto& stub = as<StubPreference>(preference);
  switch (attribute) {
    case cuda::LtPreferenceAttribute::kMaxWorkspaceBytes:
      return set(stub.workspace_bytes, value, bytes);
    case cuda::LtPreferenceAttribute::kReductionSchemes:
      return set(stub.schemes, value, bytes);
    default:
      return set(
          stub.alignments[static_cast<int>(attribute) - static_cast<int>(cuda::LtPreferenceAttribute::kAlignmentA)],
          value, bytes);
  }
}

EXPORT LtStatus cublasLtMatmulAlgoGetHeuristic(cuda::LtHandle /*handle*/, cuda::LtProduct product, cuda::LtLayout a,
                                               cuda::LtLayout b, cuda::LtLayout c, cuda::LtLayout d,
                                               cuda::LtPreference preference, int requested, cuda::LtHeuristic* results,
                                               int* returned) {
  if (const LtStatus status = failure("cublasLtMatmulAlgoGetHeuristic"); status != LtStatus::kSuccess) return status;
  ++heuristics;
  *returned = 0;
  const auto& wish = as<StubPreference>(preference);
  const Matrices matrices{as<StubProduct>(product), as<StubLayout>(a), as<StubLayout>(b), as<StubLayout>(c),
                          as<StubLayout>(d)};
  if (!matrices.fit() || requested < 1 || wish.schemes != cuda::kLtReductionInComputeType) {
    return LtStatus::kInvalidValue;
  }
  const auto wants = static_cast<uint32_t>(std::min<uint64_t>(bytes_of(matrices.a.type) == 1 ? 16 : 1, 256));
  const uint32_t least = *std::min_element(std::begin(wish.alignments), std::end(wish.alignments));
  if (!matrices.known() || least < wants) return LtStatus::kNotSupported;
  StubAlgorithm algorithm{{}, 512, kMagic, matrices.form()};
  if (algorithm.workspace_bytes > wish.workspace_bytes) return LtStatus::kNotSupported;
  std::copy(std::begin(wish.alignments), std::end(wish.alignments), algorithm.alignments);
  results[0] = {};
  std::memcpy(&results[0].algorithm, &algorithm, sizeof(algorithm));
  results[0].workspace_bytes = algorithm.workspace_bytes;
  *returned = 1;
  return LtStatus::kSuccess;
}

EXPORT LtStatus cublasLtMatmul(cuda::LtHandle /*handle*/, cuda::LtProduct product, const void* alpha, const void* a,
                               cuda::LtLayout a_layout, const void* b, cuda::LtLayout b_layout, const void* beta,
                               const void* c, cuda::LtLayout c_layout, void* d, cuda::LtLayout d_layout,
                               const cuda::LtAlgorithm* given, void* workspace, size_t workspace_bytes,
                               cuda::StreamRef stream) {
  if (const LtStatus status = failure("cublasLtMatmul"); status != LtStatus::kSuccess) return status;
  StubAlgorithm algorithm{};
  std::memcpy(&algorithm, given, sizeof(algorithm));
  const auto& stub = as<StubProduct>(product);
  const Matrices matrices{stub, as<StubLayout>(a_layout), as<StubLayout>(b_layout), as<StubLayout>(c_layout),
                          as<StubLayout>(d_layout)};
  const auto is_aligned = [](const void* data, uint64_t alignment) {
    return data != nullptr && reinterpret_cast<uintptr_t>(data) % alignment == 0;
  };
  const void* const operands[] = {a, b, c, d};
  bool valid = algorithm.magic == kMagic && algorithm.form == matrices.form() &&
               workspace_bytes >= algorithm.workspace_bytes && is_aligned(workspace, 256);
  for (size_t i = 0; i < std::size(operands); ++i) valid &= is_aligned(operands[i], algorithm.alignments[i]);
  if (stub.epilogue == cuda::kLtEpilogueBias) valid &= is_aligned(stub.bias, algorithm.alignments[3]);
  if (!valid) return LtStatus::kInvalidValue;
  ++products;
  const Call call{stub,
                  matrices.a,
                  matrices.b,
                  matrices.c,
                  matrices.d,
                  read(stub.scale, alpha),
                  read(stub.scale, beta),
                  static_cast<const char*>(a),
                  static_cast<const char*>(b),
                  static_cast<const char*>(c),
                  static_cast<char*>(d),
                  static_cast<char*>(workspace),
                  workspace_bytes};
  reinterpret_cast<StubStream*>(stream)->run([call] { call.run(); });
  return LtStatus::kSuccess;
}
