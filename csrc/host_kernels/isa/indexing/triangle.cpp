// Kernel group triangle: the upper or lower triangle of matrices, zero elsewhere.
#include <algorithm>
#include <cstring>

#include "host_kernels/isa/simd/element_bytes.h"
#include "host_kernels/isa/simd/tensor_list.h"
#include "runtime/base/parallel.h"
#include "runtime/frame/dtype.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

template <typename Element>
void copy_row(Element* to, int64_t to_step, const Element* from, int64_t from_step, int64_t count) {
  if (count <= 0 || to == from) return;
  if (to_step == 1 && from_step == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(Element));
  } else {
    for (int64_t j = 0; j < count; ++j) to[j * to_step] = from[j * from_step];
  }
}

template <typename Element>
void zero_row(Element* to, int64_t step, int64_t count) {
  if (count <= 0) return;
  if (step == 1) {
    std::memset(static_cast<void*>(to), 0, static_cast<size_t>(count) * sizeof(Element));
  } else {
    for (int64_t j = 0; j < count; ++j) to[j * step] = Element{};
  }
}

template <typename Element>
mydev_code triangle_as(const mydev_frame* frame) {
  const mydev_buffer &out = frame->buffers[0], &in = frame->buffers[1];
  const int64_t diagonal = frame->attributes[0].value.i;
  const bool upper = frame->attributes[1].value.i != 0;
  const int64_t count = element_count(out);
  if (count == 0) return MYDEV_OK;
  const int32_t last = out.rank - 1;
  const int64_t height = out.sizes[last - 1], width = out.sizes[last];
  const int64_t to_step = out.strides[last], from_step = in.strides[last];
  parallel_for(count / width, kGrainCheap / width + 1, [&](int64_t begin, int64_t end) {
    for (int64_t number = begin; number < end; ++number) {
      int64_t to = 0, from = 0;
      for (int64_t d = last - 1, rest = number; d >= 0; --d) {
        const int64_t position = rest % out.sizes[d];
        rest /= out.sizes[d];
        to += position * out.strides[d];
        from += position * in.strides[d];
      }
      Element* const row = static_cast<Element*>(out.data) + to;
      const Element* const source = static_cast<const Element*>(in.data) + from;
      // Kept are [first, end) of the row: from its diagonal on, or up to it. No sum of theirs overflows.
      const int64_t i = number % height;
      const int64_t edge = diagonal >= width ? width : diagonal <= -height ? -height : diagonal;
      const int64_t split = std::clamp(i + edge + (upper ? 0 : 1), int64_t{0}, width);
      const int64_t first = upper ? split : 0, stop = upper ? width : split;
      zero_row(row, to_step, first);
      copy_row(row + first * to_step, to_step, source + first * from_step, from_step, stop - first);
      zero_row(row + stop * to_step, to_step, width - stop);
    }
  });
  return MYDEV_OK;
}

mydev_code triangle_entry(const mydev_frame* frame) {
  if (frame->buffers[0].dtype != frame->buffers[1].dtype) return MYDEV_UNIMPLEMENTED;
  return visit_element_bytes(dtype_row(frame->buffers[0].dtype).size,
                             [&]<typename Element>() { return triangle_as<Element>(frame); });
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.triangle", triangle_entry),
};

}  // namespace

std::span<const mydev_kernel> triangle() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
