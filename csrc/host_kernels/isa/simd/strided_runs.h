// How a thread's share of a strided layout is cut into runs that loops take at once, and runs of one value.
#pragma once

#include <cstring>

#include "host_kernels/isa/isa.h"
#include "host_kernels/strided_layout.h"

namespace mydev::kernels::MYDEV_ISA {
namespace {

// Calls body(position, n) for runs of at most `most` elements that cover [begin, end). by_row: none crosses the end of
// a row, which is dimension 0.
template <typename Body>
void for_each_run(const StridedLayout& layout, bool by_row, int64_t most, int64_t begin, int64_t end,
                  const Body& body) {
  const int64_t row = layout.sizes[0];
  for (int64_t position = begin; position < end;) {
    int64_t n = end - position;
    if (n > most) n = most;
    if (by_row && layout.rank > 1) {
      const int64_t left = row - position % row;
      if (n > left) n = left;
    }
    body(position, n);
    position += n;
  }
}

struct Pair {
  uint64_t low, high;
};

template <typename T>
void fill_as(void* dst, const void* value, int64_t n) {
  T v;
  std::memcpy(&v, value, sizeof(T));
  T* to = static_cast<T*>(dst);
  for (int64_t i = 0; i < n; ++i) to[i] = v;
}

// Fills n dense elements of `bytes` each (1, 2, 4, 8 or 16) with one value.
inline void fill_dense(char* dst, const char* value, int64_t n, int64_t bytes) {
  switch (bytes) {
    case 1:
      std::memset(dst, *value, static_cast<size_t>(n));
      break;
    case 2:
      fill_as<uint16_t>(dst, value, n);
      break;
    case 4:
      fill_as<uint32_t>(dst, value, n);
      break;
    case 8:
      fill_as<uint64_t>(dst, value, n);
      break;
    default:
      fill_as<Pair>(dst, value, n);
      break;
  }
}

}  // namespace
}  // namespace mydev::kernels::MYDEV_ISA
