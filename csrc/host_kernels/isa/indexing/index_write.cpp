// Kernel group index_write: rows written to, or added to, the places that a tensor of indices says.
//
// Rows that go to one place are taken in the order of the indices, whatever the number of threads: each thread owns
// places, and looks at all indices. Sums in half precision are kept in float, in scratch. Indices are looked at before
// anything is written.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "host_kernels/isa/simd/element_bytes.h"
#include "host_kernels/isa/simd/element_chunk.h"
#include "host_kernels/isa/simd/indices.h"
#include "runtime/base/parallel.h"
#include "runtime/frame/dtype.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

// out[o,d,i], index[n], values[o,n,i].
struct RowWrite {
  explicit RowWrite(const mydev_frame* frame)
      : out(frame->buffers[0]), values(frame->buffers[2]), indices{frame->buffers[1]} {}
  const mydev_buffer &out, &values;
  Indices indices;
  int64_t outer = out.sizes[0], places = out.sizes[1], inner = out.sizes[2], count = values.sizes[1];

  // write(row of out, first element of the row of values), for each row of values; those of one place in order. An
  // element has `parts` of type Value.
  template <typename Value, typename Write>
  void for_each_row(int64_t parts, const Write& write) const {
    const Value* const from = static_cast<const Value*>(values.data);
    const auto run = [&](int64_t outer_begin, int64_t outer_end, int64_t begin, int64_t end) {
      for (int64_t o = outer_begin; o < outer_end; ++o) {
        for (int64_t j = 0; j < count; ++j) {
          const int64_t place = indices[j];
          if (place < begin || place >= end) continue;
          write(o * places + place, from + (o * values.strides[0] + j * values.strides[1]) * parts);
        }
      }
    };
    const int64_t work = count * inner;  // elements to each of `outer`
    if (outer >= parallel_threads()) {
      parallel_for(outer, kGrainHeavy / std::max<int64_t>(work, 1) + 1,
                   [&](int64_t begin, int64_t end) { run(begin, end, 0, places); });
    } else {
      const int64_t pieces = std::max<int64_t>(outer * work / kGrainHeavy, 1);
      parallel_for(places, places / pieces + 1, [&](int64_t begin, int64_t end) { run(0, outer, begin, end); });
    }
  }
};

mydev_code index_copy(const mydev_frame* frame) {
  const RowWrite rows(frame);
  if (!rows.indices.supported() || rows.values.dtype != rows.out.dtype) return MYDEV_UNIMPLEMENTED;
  if (const int64_t bad = rows.indices.find_bad(rows.places); bad >= 0) {
    return refuse_index(frame, rows.indices[bad], rows.places);
  }
  return visit_element_bytes(dtype_row(rows.out.dtype).size, [&]<typename Element>() {
    Element* const to = static_cast<Element*>(rows.out.data);
    const int64_t inner = rows.inner, step = rows.values.strides[2];
    rows.for_each_row<Element>(1, [&](int64_t row, const Element* from) {
      Element* const target = to + row * inner;
      if (step == 1) {
        std::memcpy(target, from, static_cast<size_t>(inner) * sizeof(Element));
      } else {
        for (int64_t i = 0; i < inner; ++i) target[i] = from[i * step];
      }
    });
    return MYDEV_OK;
  });
}

// Sum is what sums are kept in.
template <typename Element, typename Sum>
void index_add_as(const RowWrite& rows, Sum* sums, int64_t parts) {
  const int64_t inner = rows.inner * parts;
  rows.for_each_row<Element>(parts, [&](int64_t row, const Element* from) {
    Sum* const target = sums + row * inner;
    for (int64_t i = 0; i < inner; ++i) {
      if constexpr (std::is_integral_v<Sum>) {  // wraps round
        target[i] = static_cast<Sum>(static_cast<uint64_t>(target[i]) + static_cast<uint64_t>(from[i]));
      } else {
        target[i] += element_cast<Sum>(from[i]);
      }
    }
  });
}

template <typename Half>
void index_add_half(const mydev_frame* frame, const RowWrite& rows) {
  float* const sums = static_cast<float*>(frame->scratch);
  Half* const out = static_cast<Half*>(rows.out.data);
  const int64_t count = element_count(rows.out);
  parallel_for(count, kGrainCheap, [&](int64_t begin, int64_t end) {
    load_elements<float, Half>(out + begin, 1, end - begin, sums + begin);
  });
  index_add_as<Half>(rows, sums, 1);
  parallel_for(count, kGrainCheap, [&](int64_t begin, int64_t end) {
    store_elements<float, Half>(sums + begin, out + begin, 1, end - begin);
  });
}

mydev_code index_add(const mydev_frame* frame) {
  const RowWrite rows(frame);
  const int32_t dtype = rows.out.dtype;
  if (!rows.indices.supported() || rows.values.dtype != dtype || dtype == MYDEV_PRED) return MYDEV_UNIMPLEMENTED;
  if (const int64_t bad = rows.indices.find_bad(rows.places); bad >= 0) {
    return refuse_index(frame, rows.indices[bad], rows.places);
  }
  if (element_count(rows.out) == 0) return MYDEV_OK;
  if (dtype == MYDEV_C64) return index_add_as<float>(rows, static_cast<float*>(rows.out.data), 2), MYDEV_OK;
  if (dtype == MYDEV_C128) return index_add_as<double>(rows, static_cast<double*>(rows.out.data), 2), MYDEV_OK;
  const bool known = visit_element_type(dtype, [&]<typename Element>() {
    if constexpr (std::is_same_v<Element, _Float16> || std::is_same_v<Element, BFloat16Bits>) {
      index_add_half<Element>(frame, rows);
    } else if constexpr (!std::is_same_v<Element, Truth>) {
      index_add_as<Element>(rows, static_cast<Element*>(rows.out.data), 1);
    }
  });
  return known ? MYDEV_OK : MYDEV_UNIMPLEMENTED;
}

uint64_t sums_bytes(const mydev_frame* frame) {
  const mydev_buffer& out = frame->buffers[0];
  const bool half = out.dtype == MYDEV_F16 || out.dtype == MYDEV_BF16;
  return half ? static_cast<uint64_t>(element_count(out)) * sizeof(float) : 0;
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.index_copy", index_copy),
    kernel_record("mydev.index_add", index_add, sums_bytes),
};

}  // namespace

std::span<const mydev_kernel> index_write() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
