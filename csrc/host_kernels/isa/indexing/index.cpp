// Kernel group index: rows and elements picked by a tensor of indices, and the gradient of picking rows.
//
// Nothing is read or written beyond the operands, whatever the indices are.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "host_kernels/isa/simd/element_bytes.h"
#include "host_kernels/isa/simd/element_chunk.h"
#include "host_kernels/isa/simd/indices.h"
#include "runtime/base/parallel.h"
#include "runtime/frame/dtype.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

// Copies `count` rows, which the indices pick. A row has kBytes bytes, or `bytes` where that is 0.
template <size_t kBytes, typename Index>
void pick_rows(char* target, const char* source, const void* indices, int64_t stride, int64_t count, int64_t bytes) {
  const auto* const index = static_cast<const Index*>(indices);
  for (int64_t row = 0; row < count; ++row) {
    const auto picked = static_cast<int64_t>(index[row * stride]);
    if constexpr (kBytes != 0) {
      constexpr auto kStep = static_cast<int64_t>(kBytes);
      std::memcpy(target + row * kStep, source + picked * kStep, kBytes);
    } else {
      std::memcpy(target + row * bytes, source + picked * bytes, static_cast<size_t>(bytes));
    }
  }
}

using PickRows = void (*)(char*, const char*, const void*, int64_t, int64_t, int64_t);
template <typename Index>
PickRows row_picker(int64_t bytes) {
  switch (bytes) {
    case 1:
      return pick_rows<1, Index>;
    case 2:
      return pick_rows<2, Index>;
    case 4:
      return pick_rows<4, Index>;
    case 8:
      return pick_rows<8, Index>;
    default:
      return pick_rows<0, Index>;
  }
}

mydev_code index_select(const mydev_frame* frame) {
  const mydev_buffer &out = frame->buffers[0], &in = frame->buffers[1];
  const Indices indices{frame->buffers[2]};
  if (!indices.supported() || in.dtype != out.dtype || dtype_row(out.dtype).size == 0) return MYDEV_UNIMPLEMENTED;
  const int64_t outer = out.sizes[0], picked = out.sizes[1], limit = in.sizes[1];
  const int64_t bytes = out.sizes[2] * dtype_row(out.dtype).size;
  if (const int64_t bad = indices.find_bad(limit); bad >= 0) return refuse_index(frame, indices[bad], limit);
  const char* source = static_cast<const char*>(in.data);
  char* target = static_cast<char*>(out.data);
  if (bytes == 0) return MYDEV_OK;
  const bool is_wide = indices.buffer.dtype == MYDEV_S64;
  const PickRows pick = is_wide ? row_picker<int64_t>(bytes) : row_picker<int32_t>(bytes);
  const char* const chosen = static_cast<const char*>(indices.buffer.data);
  const int64_t step = indices.stride * dtype_row(indices.buffer.dtype).size;
  parallel_for(outer * picked, std::max<int64_t>(kGrainCheap * 4 / bytes, 1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end;) {
      const int64_t o = row / picked, first = row % picked, last = std::min(picked, first + end - row);
      pick(target + (o * picked + first) * bytes, source + o * limit * bytes, chosen + first * step, indices.stride,
           last - first, bytes);
      row += last - first;
    }
  });
  return MYDEV_OK;
}

bool all_within(const int64_t* indices, int64_t count, int64_t limit) {
  int64_t signs = 0;  // negative as soon as an index or its distance from the last one is
  for (int64_t i = 0; i < count; ++i) signs |= indices[i] | (limit - 1 - indices[i]);
  return signs >= 0;
}

template <typename T>
void pick(T* target, const T* source, const int64_t* indices, int64_t count) {
#pragma GCC ivdep  // the target is no operand's memory
  for (int64_t i = 0; i < count; ++i) target[i] = source[indices[i]];
}

template <typename T>
void copy_run(T* target, int64_t to_step, const T* source, int64_t from_step, int64_t count) {
  if constexpr (std::is_trivially_copyable_v<T>) {
    if (to_step == 1 && from_step == 1) {
      std::memcpy(target, source, static_cast<size_t>(count) * sizeof(T));
      return;
    }
  }
  for (int64_t i = 0; i < count; ++i) target[i * to_step] = source[i * from_step];
}

// PRED elements become 0 or 1.
struct Truths {
  uint8_t value;
  Truths& operator=(const Truths& other) {
    value = other.value != 0;
    return *this;
  }
};

template <typename Element>
mydev_code gather_as(const mydev_frame* frame) {
  const mydev_buffer &out = frame->buffers[0], &in = frame->buffers[1], &index = frame->buffers[2];
  const int32_t dim = static_cast<int32_t>(frame->attributes[0].value.i), last = out.rank - 1;
  const int64_t limit = in.sizes[dim], count = element_count(out);
  if (out.rank > 16) return MYDEV_UNIMPLEMENTED;
  if (count == 0) return MYDEV_OK;
  // A row runs along the last dimension, and where the index is expanded along that, along others that it is expanded
  // along and that the tensors go through as one.
  const bool expanded = dim != last && index.strides[last] == 0;
  int64_t width = out.sizes[last];
  int32_t outer = last;
  while (expanded && outer > 0 && outer - 1 != dim && index.strides[outer - 1] == 0 &&
         out.strides[outer - 1] == width * out.strides[last] && in.strides[outer - 1] == width * in.strides[last]) {
    width *= out.sizes[--outer];
  }
  const int64_t in_step = dim == last ? 0 : in.strides[last], picked_stride = in.strides[dim];
  const bool to_unit_steps = in_step == 0 && picked_stride == 1 && out.strides[last] == 1 && index.strides[last] == 1;
  std::atomic<int64_t> bad{0};
  std::atomic<bool> found{false};
  parallel_for(count / width, std::max<int64_t>(kGrainHeavy / width, 1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t to = 0, from = 0, at = 0;
      for (int64_t d = outer - 1, rest = row; d >= 0; --d) {
        const int64_t position = d == 0 ? rest : rest % out.sizes[d];
        if (d > 0) rest /= out.sizes[d];
        to += position * out.strides[d];
        at += position * index.strides[d];
        if (d != dim) from += position * in.strides[d];
      }
      Element* target = static_cast<Element*>(out.data) + to;
      const Element* source = static_cast<const Element*>(in.data) + from;
      const int64_t* indices = static_cast<const int64_t*>(index.data) + at;
      if (to_unit_steps && all_within(indices, width, limit)) {
        pick(target, source, indices, width);
        continue;
      }
      if (expanded && all_within(indices, 1, limit)) {
        copy_run(target, out.strides[last], source + *indices * picked_stride, in_step, width);
        continue;
      }
      // Copies: the bytes stored below might be any of the captured values, for all that the compiler knows.
      const int64_t n = width, bound = limit, to_step = out.strides[last], index_step = index.strides[last];
      const int64_t from_step = in_step, pick_step = picked_stride;
      for (int64_t j = 0; j < n; ++j) {
        const int64_t picked = indices[j * index_step];
        if (picked < 0 || picked >= bound) {
          bad.store(picked, std::memory_order_relaxed);  // both read after all threads are joined
          found.store(true, std::memory_order_relaxed);
          return;
        }
        target[j * to_step] = source[j * from_step + picked * pick_step];
      }
    }
  });
  if (found.load(std::memory_order_relaxed)) {
    char message[128];
    std::snprintf(message, sizeof(message), "index %lld is out of bounds for dimension %d with size %lld",
                  static_cast<long long>(bad.load(std::memory_order_relaxed)), dim, static_cast<long long>(limit));
    frame->host->set_error(frame, message);
    return MYDEV_INVALID_ARGUMENT;  // PyTorch's gather raises RuntimeError, not IndexError
  }
  return MYDEV_OK;
}

mydev_code gather(const mydev_frame* frame) {
  if (frame->buffers[0].dtype != frame->buffers[1].dtype || frame->buffers[2].dtype != MYDEV_S64) {
    return MYDEV_UNIMPLEMENTED;
  }
  const int64_t dim = frame->attributes[0].value.i;
  if (dim < 0 || dim >= frame->buffers[0].rank) {
    frame->host->set_error(frame, "dim must be a dimension of the operands, from 0 on");
    return MYDEV_INVALID_ARGUMENT;
  }
  if (frame->buffers[0].dtype == MYDEV_PRED) return gather_as<Truths>(frame);
  return visit_element_bytes(dtype_row(frame->buffers[0].dtype).size,
                             [&]<typename Element>() { return gather_as<Element>(frame); });
}

// Bytes of the sums of half precision gradients, which are kept in float.
uint64_t half_sums_bytes(const mydev_buffer& grad_weight) {
  const bool half = grad_weight.dtype == MYDEV_F16 || grad_weight.dtype == MYDEV_BF16;
  return half ? static_cast<uint64_t>(element_count(grad_weight)) * sizeof(float) : 0;
}

template <typename C>
void add_row(C* __restrict sum, const C* __restrict row, C scale, int64_t count) {
  for (int64_t j = 0; j < count; ++j) sum[j] += row[j] * scale;
}

// Each task owns a range of rows of grad_weight and adds what belongs there in the order of the indices. C: what sums
// are kept in, which is where they go unless Element is half precision.
template <typename Element, typename C>
mydev_code embedding_backward_as(const mydev_frame* frame) {
  constexpr bool kHalf = !std::is_same_v<Element, C>;
  const mydev_buffer &grad_weight = frame->buffers[0], &grad_out = frame->buffers[1];
  const Indices indices{frame->buffers[2]};
  const int64_t padding = frame->attributes[0].value.i;
  const bool scales = frame->attributes[1].value.i != 0;
  const int64_t vocabulary = grad_weight.sizes[0], width = grad_weight.sizes[1];
  const int64_t count = element_count(frame->buffers[2]);
  if (const int64_t bad = indices.find_bad(vocabulary); bad >= 0) return refuse_index(frame, indices[bad], vocabulary);
  C* sums = static_cast<C*>(kHalf ? frame->scratch : grad_weight.data);
  const Element* grads = static_cast<const Element*>(grad_out.data);
  auto* frequency = reinterpret_cast<int32_t*>(static_cast<char*>(frame->scratch) + half_sums_bytes(grad_weight));
  if (scales) {
    std::memset(frequency, 0, static_cast<size_t>(vocabulary) * sizeof(int32_t));
    for (int64_t i = 0; i < count; ++i) ++frequency[indices[i]];
  }
  const auto dtype = static_cast<mydev_dtype>(grad_weight.dtype);
  [[maybe_unused]] const Convert load = kHalf ? find_conversion(dtype, MYDEV_F32).steps[0] : nullptr;
  [[maybe_unused]] const Convert store = kHalf ? find_conversion(MYDEV_F32, dtype).steps[0] : nullptr;
  const int64_t per_row = width * (1 + count / std::max<int64_t>(vocabulary, 1));
  parallel_for(vocabulary, std::max<int64_t>(2 * kGrainHeavy / std::max<int64_t>(per_row, 1), 1),
               [&](int64_t begin, int64_t end) {
                 std::memset(sums + begin * width, 0, static_cast<size_t>((end - begin) * width) * sizeof(C));
                 for (int64_t i = 0; i < count; ++i) {
                   const int64_t row = indices[i];
                   if (row < begin || row >= end || row == padding) continue;
                   const C scale = scales ? C{1} / static_cast<C>(frequency[row]) : C{1};
                   if constexpr (kHalf) {
                     alignas(64) C values[kChunk];
                     for (int64_t at = 0; at < width; at += kChunk) {
                       const int64_t n = std::min(kChunk, width - at);
                       load(values, grads + i * width + at, n);
                       add_row(sums + row * width + at, values, scale, n);
                     }
                   } else {
                     add_row(sums + row * width, grads + i * width, scale, width);
                   }
                 }
                 if constexpr (kHalf) {
                   store(static_cast<Element*>(grad_weight.data) + begin * width, sums + begin * width,
                         (end - begin) * width);
                 }
               });
  return MYDEV_OK;
}

mydev_code embedding_backward(const mydev_frame* frame) {
  if (frame->buffers[0].dtype != frame->buffers[1].dtype || !Indices{frame->buffers[2]}.supported()) {
    return MYDEV_UNIMPLEMENTED;
  }
  return visit_floating_type(frame->buffers[0].dtype,
                             [&]<typename T, typename C> { return embedding_backward_as<T, C>(frame); });
}

uint64_t embedding_backward_bytes(const mydev_frame* frame) {
  const mydev_buffer& grad_weight = frame->buffers[0];
  const bool scales = frame->attributes[1].value.i != 0;
  return half_sums_bytes(grad_weight) + (scales ? static_cast<uint64_t>(grad_weight.sizes[0]) * sizeof(int32_t) : 0);
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.index_select", index_select),
    kernel_record("mydev.gather", gather),
    kernel_record("mydev.embedding_backward", embedding_backward, embedding_backward_bytes),
};

}  // namespace

std::span<const mydev_kernel> index() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
