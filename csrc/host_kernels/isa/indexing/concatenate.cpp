// Kernel group concatenate: tensors joined along the middle of three dimensions, as bytes.
#include <algorithm>
#include <array>
#include <cstring>

#include "host_kernels/isa/simd/element_chunk.h"
#include "runtime/base/parallel.h"
#include "runtime/frame/dtype.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int64_t kBlockBytes = 16 * 1024;  // of out, which stay in a first cache while the operands come to them

template <typename T>
void put_elements(char* to, int64_t to_row, const char* from, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) std::memcpy(to + r * to_row, from + r * int64_t{sizeof(T)}, sizeof(T));
}

// Puts rows of `bytes`, which lie one behind the other, to where they are `to_row` apart.
void put_rows(char* to, int64_t to_row, const char* from, int64_t bytes, int64_t rows) {
  switch (bytes) {
    case 1:
      return put_elements<uint8_t>(to, to_row, from, rows);
    case 2:
      return put_elements<uint16_t>(to, to_row, from, rows);
    case 4:
      return put_elements<uint32_t>(to, to_row, from, rows);
    case 8:
      return put_elements<uint64_t>(to, to_row, from, rows);
    case 16:
      return put_elements<std::array<uint64_t, 2>>(to, to_row, from, rows);
    default:
      for (int64_t r = 0; r < rows; ++r) std::memcpy(to + r * to_row, from + r * bytes, static_cast<size_t>(bytes));
  }
}

mydev_code concatenate_entry(const mydev_frame* frame) {
  const mydev_buffer& out = frame->buffers[0];
  if (dtype_row(out.dtype).size == 0 || !have_dtype(frame, 1, 1 + frame->num_inputs, out.dtype)) {
    return MYDEV_UNIMPLEMENTED;
  }
  const int64_t inner = out.sizes[2] * dtype_row(out.dtype).size, row = out.sizes[1] * inner;
  if (row == 0) return MYDEV_OK;
  parallel_for(out.sizes[0], std::max<int64_t>(kGrainCheap * 4 / row, 1), [&](int64_t begin, int64_t end) {
    const int64_t block = std::max<int64_t>(kBlockBytes / row, 1);
    for (int64_t outer = begin; outer < end; outer += block) {
      char* to = static_cast<char*>(out.data) + outer * row;
      const int64_t rows = std::min(block, end - outer);
      for (uint32_t k = 1; k <= frame->num_inputs; ++k) {
        const mydev_buffer& in = frame->buffers[k];
        const int64_t bytes = in.sizes[1] * inner;
        if (bytes == 0) continue;
        put_rows(to, row, static_cast<const char*>(in.data) + outer * bytes, bytes, rows);
        to += bytes;
      }
    }
  });
  return MYDEV_OK;
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.concatenate", concatenate_entry),
};

}  // namespace

std::span<const mydev_kernel> concatenate() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
