// Kernel group concatenate: tensors joined along the middle of three dimensions, as bytes.
#include <algorithm>
#include <cstring>

#include "host_kernels/isa/simd/element_chunk.h"
#include "runtime/base/parallel.h"
#include "runtime/frame/dtype.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

mydev_code concatenate_entry(const mydev_frame* frame) {
  const mydev_buffer& out = frame->buffers[0];
  if (dtype_row(out.dtype).size == 0 || !have_dtype(frame, 1, 1 + frame->num_inputs, out.dtype)) {
    return MYDEV_UNIMPLEMENTED;
  }
  const int64_t inner = out.sizes[2] * dtype_row(out.dtype).size, row = out.sizes[1] * inner;
  if (row == 0) return MYDEV_OK;
  parallel_for(out.sizes[0], std::max<int64_t>(kGrainCheap * 4 / row, 1), [&](int64_t begin, int64_t end) {
    for (int64_t outer = begin; outer < end; ++outer) {
      char* to = static_cast<char*>(out.data) + outer * row;
      for (uint32_t k = 1; k <= frame->num_inputs; ++k) {
        const mydev_buffer& in = frame->buffers[k];
        const int64_t bytes = in.sizes[1] * inner;
        if (bytes == 0) continue;
        std::memcpy(to, static_cast<const char*>(in.data) + outer * bytes, static_cast<size_t>(bytes));
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
