// A reduction of dense rows, for who goes through several kernels at once (fused_tiles.h): nothing is planned.
//
// Entries of csrc/host_kernels/isa/reduction/reduction.cpp, called with a frame whose `decision` is a RowReduction,
// fill that in and compute nothing; buffers need no data and no sizes then. UNIMPLEMENTED: elements would be converted.
// Other kernels reduce no rows.
#pragma once

#include <cstdint>

namespace mydev::kernels {

struct RowReduction {
  // Reduces each of `rows` rows of dense elements into one; rows begin in_bytes apart, and results out_bytes. The
  // result is that of the kernel to the bit.
  void (*run)(char* out, int64_t out_bytes, const char* in, int64_t in_bytes, int64_t rows, int64_t length);
  // How the result follows from a row's sum, for f32: it is the sum, or the mean; kOther: neither, or not f32.
  enum Total : int8_t { kOther, kSum, kMean } total;
};

}  // namespace mydev::kernels
