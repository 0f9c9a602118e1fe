// A reduction of dense rows, for who goes through several kernels at once (fused_tiles.h): nothing is planned.
//
// Entries of csrc/host_kernels/isa/reduction/reduction.cpp, called with a frame whose `decision` is a RowReduction,
// fill that in and compute nothing; buffers need no data and no sizes then. UNIMPLEMENTED: elements would be converted.
// Other kernels reduce no rows.
#pragma once

#include <cstdint>

namespace mydev::kernels {

struct RowReduction {
  // Each of so many rows of dense elements into one; rows, and results, begin so many bytes apart. To the bit what the
  // kernel computes.
  void (*run)(char* out, int64_t out_bytes, const char* in, int64_t in_bytes, int64_t rows, int64_t length);
  // What it makes of a row's sum, of f32: nothing more, or the mean; or it is something else.
  enum Total : int8_t { kOther, kSum, kMean } total;
};

}  // namespace mydev::kernels
