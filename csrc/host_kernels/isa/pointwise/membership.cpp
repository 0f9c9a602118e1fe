// Kernel group membership: compares each element with each of the tests; meant for few tests. f16, bf16 and f32 are
// compared as float, f64 as double, integers in 64 bits.
#include <algorithm>

#include "host_kernels/isa/simd/element_chunk.h"
#include "runtime/base/parallel.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

template <typename C, typename Mask>
mydev_code isin_as(const mydev_frame* frame) {
  const mydev_buffer &elements = frame->buffers[1], &tests = frame->buffers[2];
  const ChunkReader<C> reader(elements.dtype);
  if (!reader.supported()) return MYDEV_UNIMPLEMENTED;
  const int64_t num_tests = tests.sizes[0];
  const Mask invert = frame->attributes[0].value.i != 0 ? -1 : 0;
  const auto read = [&](const mydev_buffer& buffer, int64_t at, int64_t n, C* space) {
    return reader.read(static_cast<const char*>(buffer.data) + at * reader.element_bytes(), 1, n, space);
  };
  const int64_t grain = std::max<int64_t>(kGrainCheap / std::max<int64_t>(num_tests, 1), 1);
  parallel_for(elements.sizes[0], grain, [&](int64_t begin, int64_t end) {
    alignas(64) C element_space[kChunk], test_space[kChunk];
    alignas(64) Mask found[kChunk];
    for (int64_t at = begin; at < end; at += kChunk) {
      const int64_t n = std::min(kChunk, end - at);
      const C* x = read(elements, at, n, element_space);
      std::fill(found, found + n, invert);
      for (int64_t first = 0; first < num_tests; first += kChunk) {
        const int64_t count = std::min(kChunk, num_tests - first);
        const C* test = read(tests, first, count, test_space);
        for (int64_t t = 0; t < count; ++t) {
          const C value = test[t];
          for (int64_t j = 0; j < n; ++j) found[j] = x[j] == value ? ~invert : found[j];
        }
      }
      bool* out = static_cast<bool*>(frame->buffers[0].data) + at;
      for (int64_t j = 0; j < n; ++j) out[j] = found[j] != 0;
    }
  });
  return MYDEV_OK;
}

mydev_code isin_entry(const mydev_frame* frame) {
  if (frame->buffers[0].dtype != MYDEV_PRED || frame->buffers[1].dtype != frame->buffers[2].dtype) {
    return MYDEV_UNIMPLEMENTED;
  }
  switch (frame->buffers[1].dtype) {
    case MYDEV_F16:
    case MYDEV_BF16:
    case MYDEV_F32:
      return isin_as<float, int32_t>(frame);
    case MYDEV_F64:
      return isin_as<double, int64_t>(frame);
    default:
      return isin_as<int64_t, int64_t>(frame);
  }
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.isin", isin_entry),
};

}  // namespace

std::span<const mydev_kernel> membership() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
