// Matrix products in dtypes that oneDNN does not multiply, f64, integers and complex numbers, and in f32. Own loops,
// one variant per instruction set.
//
// out = alpha * (a @ b) + beta * addend, of any strides, computed in the dtype of out itself: integers wrap around.
// Work is cut into tasks, which may run side by side; a task has memory of its own, and allocates nothing.
#pragma once

#include <cstdint>

#include "host_kernels/isa_declaration.h"
#include "mydev/custom_call.h"

namespace mydev::kernels {

inline constexpr uint64_t kWideDtypes =
    MYDEV_DTYPE_BIT(MYDEV_F64) | MYDEV_DTYPE_BIT(MYDEV_S8) | MYDEV_DTYPE_BIT(MYDEV_U8) | MYDEV_DTYPE_BIT(MYDEV_S16) |
    MYDEV_DTYPE_BIT(MYDEV_S32) | MYDEV_DTYPE_BIT(MYDEV_S64) | MYDEV_DTYPE_BIT(MYDEV_C64) | MYDEV_DTYPE_BIT(MYDEV_C128);

struct WideMatrix {
  void* data;
  int64_t row_stride, col_stride;  // in elements
};

// One of a batch.
struct WideProduct {
  mydev_dtype dtype;      // of a and b: F32, or one of kWideDtypes
  mydev_dtype out_dtype;  // of out and addend: the same, or S32 of S8 and U8
  int64_t m, n, k;        // k may be 0
  WideMatrix out, a, b;
  WideMatrix addend;   // data == nullptr: none; may be `out` itself
  double alpha, beta;  // of integers: whole numbers
};

struct WideProductFunctions {
  int64_t (*tasks)(const WideProduct& product);
  uint64_t (*task_bytes)(const WideProduct& product);
  // `memory`: task_bytes, aligned to 64 bytes.
  void (*run)(const WideProduct& product, int64_t task, void* memory);
  // Columns [begin, end) of a product with few rows, of integers of 8 or 16 bits that lie one behind the other along k
  // (col_stride of a and row_stride of b are 1): dot products, which need no memory.
  void (*dots)(const WideProduct& product, int64_t begin, int64_t end);
};

// One variant per instruction set (csrc/host_kernels/isa/products/wide_product.cpp).
MYDEV_DECLARE_VARIANTS(extern const WideProductFunctions wide_product;)

}  // namespace mydev::kernels
