// The entries of cuBLASLt that this driver calls, in declarations of its own. Names, numbers and layouts are those of
// cublasLt.h, the same in cuBLAS 12 and 13. Descriptors are opaque: the library creates them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_driver/library/cuda_api.h"

namespace mydev::cuda_driver {

using LtHandle = struct LtHandleStruct*;          // cublasLtHandle_t
using LtProduct = struct LtProductStruct*;        // cublasLtMatmulDesc_t
using LtLayout = struct LtLayoutStruct*;          // cublasLtMatrixLayout_t
using LtPreference = struct LtPreferenceStruct*;  // cublasLtMatmulPreference_t

enum class LtStatus : int {  // cublasStatus_t
  kSuccess = 0,
  kNotInitialized = 1,
  kAllocationFailed = 3,
  kInvalidValue = 7,
  kArchitectureMismatch = 8,
  kInternalError = 14,
  kNotSupported = 15,
};

enum class LtType : int {  // cudaDataType
  kF32 = 0,
  kF64 = 1,
  kF16 = 2,
  kS8 = 3,
  kC64 = 4,
  kC128 = 5,
  kS32 = 10,
  kBf16 = 14,
  kF8e4m3 = 28,
};

// cublasComputeType_t. kF32 is without TF32.
enum class LtCompute : int { kF32 = 68, kF64 = 70, kS32 = 72 };

enum class LtProductAttribute : int {  // cublasLtMatmulDescAttributes_t
  kTransposeA = 3,                     // int32_t: 1 for a transposed A
  kTransposeB = 4,                     // likewise
  kEpilogue = 7,                       // uint32_t
  kBias = 8,                           // const void*
};
inline constexpr uint32_t kLtEpilogueBias = 4;  // adds a vector to each column

enum class LtLayoutAttribute : int {  // cublasLtMatrixLayoutAttribute_t
  kBatchCount = 5,                    // int32_t
  kBatchStride = 6,                   // int64_t, in elements
};

enum class LtPreferenceAttribute : int {  // cublasLtMatmulPreferenceAttributes_t
  kMaxWorkspaceBytes = 1,                 // uint64_t
  kReductionSchemes = 3,                  // uint32_t
  kAlignmentA = 5,                        // uint32_t each, in bytes
  kAlignmentB = 6,
  kAlignmentC = 7,
  kAlignmentD = 8,
};
// Partial sums are added in the type of the computation, in an order that does not change.
inline constexpr uint32_t kLtReductionInComputeType = 2;

struct LtAlgorithm {  // cublasLtMatmulAlgo_t
  uint64_t data[8];
};
struct LtHeuristic {  // cublasLtMatmulHeuristicResult_t
  LtAlgorithm algorithm;
  size_t workspace_bytes;
  LtStatus state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(LtHeuristic) == 96);

#define MYDEV_CUBLASLT_ENTRIES(ENTRY)                                                                                  \
  ENTRY(cublasLtCreate, (LtHandle * handle))                                                                           \
  ENTRY(cublasLtMatmulDescCreate, (LtProduct * product, LtCompute compute, LtType scale))                              \
  ENTRY(cublasLtMatmulDescDestroy, (LtProduct product))                                                                \
  ENTRY(cublasLtMatmulDescSetAttribute,                                                                                \
        (LtProduct product, LtProductAttribute attribute, const void* value, size_t bytes))                            \
  ENTRY(cublasLtMatrixLayoutCreate, (LtLayout * layout, LtType type, uint64_t rows, uint64_t columns, int64_t stride)) \
  ENTRY(cublasLtMatrixLayoutDestroy, (LtLayout layout))                                                                \
  ENTRY(cublasLtMatrixLayoutSetAttribute,                                                                              \
        (LtLayout layout, LtLayoutAttribute attribute, const void* value, size_t bytes))                               \
  ENTRY(cublasLtMatmulPreferenceCreate, (LtPreference * preference))                                                   \
  ENTRY(cublasLtMatmulPreferenceDestroy, (LtPreference preference))                                                    \
  ENTRY(cublasLtMatmulPreferenceSetAttribute,                                                                          \
        (LtPreference preference, LtPreferenceAttribute attribute, const void* value, size_t bytes))                   \
  ENTRY(cublasLtMatmulAlgoGetHeuristic,                                                                                \
        (LtHandle handle, LtProduct product, LtLayout a, LtLayout b, LtLayout c, LtLayout d, LtPreference preference,  \
         int requested, LtHeuristic* results, int* returned))                                                          \
  ENTRY(cublasLtMatmul,                                                                                                \
        (LtHandle handle, LtProduct product, const void* alpha, const void* a, LtLayout a_layout, const void* b,       \
         LtLayout b_layout, const void* beta, const void* c, LtLayout c_layout, void* d, LtLayout d_layout,            \
         const LtAlgorithm* algorithm, void* workspace, size_t workspace_bytes, StreamRef stream))

struct CublasLtApi {
#define MYDEV_DECLARE(name, parameters) LtStatus(*name) parameters;  // NOLINT(bugprone-macro-parentheses)
  MYDEV_CUBLASLT_ENTRIES(MYDEV_DECLARE)
#undef MYDEV_DECLARE
  const char* (*cublasLtGetStatusName)(LtStatus status);
};

}  // namespace mydev::cuda_driver
