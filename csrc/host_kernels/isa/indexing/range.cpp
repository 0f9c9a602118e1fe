// Kernel group range: numbers at equal distances. Integers are exact; floating types compute in double and round once.
#include <algorithm>

#include "host_kernels/isa/simd/element_chunk.h"
#include "runtime/base/parallel.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

template <typename C>
mydev_code arange_as(const mydev_frame* frame, C start, C step) {
  const mydev_buffer& out = frame->buffers[0];
  const ChunkWriter<C> writer(out.dtype);
  if (!writer.supported()) return MYDEV_UNIMPLEMENTED;
  const int64_t stride = out.strides[0];
  parallel_for(out.sizes[0], kGrainCheap, [&](int64_t begin, int64_t end) {
    alignas(64) C space[kChunk];
    for (int64_t at = begin; at < end; at += kChunk) {
      const int64_t n = std::min(kChunk, end - at);
      char* target = static_cast<char*>(out.data) + at * stride * writer.element_bytes();
      C* x = writer.place(target, stride, space);
      for (int64_t i = 0; i < n; ++i) x[i] = start + static_cast<C>(at + i) * step;
      writer.write(x, target, stride, n);
    }
  });
  return MYDEV_OK;
}

mydev_code arange_entry(const mydev_frame* frame) {
  const mydev_attribute &start = frame->attributes[0], &step = frame->attributes[1];
  if (start.kind == MYDEV_ATTRIBUTE_INT) return arange_as<int64_t>(frame, start.value.i, step.value.i);
  return arange_as<double>(frame, start.value.f, step.value.f);
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.arange", arange_entry),
};

}  // namespace

std::span<const mydev_kernel> range() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
