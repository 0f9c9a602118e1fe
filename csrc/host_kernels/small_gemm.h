// Matrix products that are too small or too thin for oneDNN: own loops, one variant per instruction set.
//
// They allocate nothing, take any strides, and compute out = alpha * (a @ b) + beta * addend in f32. oneDNN costs about
// 0.4 us a call and 1.2 us more once it forks; it also packs a transposed b, which a product of few rows never earns
// back. Nor does it earn a copy of an f16 or bf16 b in f32: dot and rows convert its elements as they read them.
#pragma once

#include <cstdint>

#include "host_kernels/isa_declaration.h"
#include "mydev/custom_call.h"
#include "runtime/base/api.h"

namespace mydev::kernels {

struct F32Matrix {
  float* data;
  int64_t row_stride, col_stride;
};

struct GemmFactor {
  const char* data;
  int64_t row_stride, col_stride;  // in elements
  mydev_dtype dtype;               // F32; of dot and rows also F16 and BF16
};

struct SmallGemm {
  int64_t m, n, k;
  F32Matrix out, a;
  GemmFactor b;
  F32Matrix addend;  // data == nullptr: none; may be `out` itself
  float alpha, beta;
};

struct SmallGemmFunctions {
  // Any product; meant for k <= kSmallGemmMaxK (its packing buffer) and a few ten thousand multiplications.
  void (*small)(const SmallGemm& gemm);
  // Columns [begin, end) of a product with few rows, where a and b are contiguous along k (col_stride of a and
  // row_stride of b are 1): dot products.
  void (*dot)(const SmallGemm& gemm, int64_t begin, int64_t end);
  // Columns [begin, end) of a product with few rows, where b is contiguous along n (its col_stride is 1): sums of its
  // rows, each of which is read once for eight rows of a.
  void (*rows)(const SmallGemm& gemm, int64_t begin, int64_t end);
};

inline constexpr int64_t kSmallGemmMaxK = 128;

// One variant per instruction set (csrc/host_kernels/isa/products/small_gemm.cpp).
MYDEV_DECLARE_VARIANTS(MYDEV_API extern const SmallGemmFunctions small_gemm;)

}  // namespace mydev::kernels
