// A reduction of dense rows, for who goes through several kernels at once (fused_tiles.h): nothing is planned.
//
// Kernels of csrc/host_kernels/isa/reduction/reduction.cpp reduce rows: find_row_reduction() gives them by name.
#pragma once

#include <cstdint>

#include "host_kernels/isa_declaration.h"

namespace mydev::kernels {

struct RowReduction {
  // Reduces each of `rows` rows of dense elements into one; rows begin in_bytes apart, and results out_bytes. The
  // result is that of the kernel to the bit.
  void (*run)(char* out, int64_t out_bytes, const char* in, int64_t in_bytes, int64_t rows, int64_t length) = nullptr;
  // How the result follows from a row's sum, for f32: it is the sum, or the mean; kOther: neither, or not f32.
  enum Total : int8_t { kOther, kSum, kMean } total = kOther;
};

// Returns how the kernel of that name reduces rows of the dtype into elements of the dtype. Without `run`, it does not,
// or elements would be converted.
MYDEV_DECLARE_VARIANTS(RowReduction find_row_reduction(const char* kernel, int32_t dtype);)

}  // namespace mydev::kernels
