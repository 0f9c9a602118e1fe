#include "host_kernels/strided_layout.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "runtime/frame/frame.h"

namespace mydev::kernels {

namespace {

// Whether dimension a should be inside dimension b.
bool belongs_inside(const StridedLayout& layout, int a, int b) {
  for (int k = 0; k < layout.operands; ++k) {
    const int64_t sa = std::abs(layout.strides[k][a]), sb = std::abs(layout.strides[k][b]);
    if (sa == 0 || sb == 0 || sa == sb) continue;
    return sa < sb;
  }
  return false;
}

void swap_dimensions(StridedLayout& layout, int a, int b) {
  std::swap(layout.sizes[a], layout.sizes[b]);
  for (int k = 0; k < layout.operands; ++k) std::swap(layout.strides[k][a], layout.strides[k][b]);
}

bool walked_as_one(const StridedLayout& layout, int inner, int outer) {
  for (int k = 0; k < layout.operands; ++k) {
    if (layout.strides[k][outer] != layout.strides[k][inner] * layout.sizes[inner]) return false;
  }
  return true;
}

// Sorts the first `rank` dimensions and merges neighbours; returns the number left.
int collapse(StridedLayout& layout, int rank) {
  for (int d = 1; d < rank; ++d) {  // insertion sort: dimensions without a preference keep their order
    for (int i = d; i > 0 && belongs_inside(layout, i, i - 1); --i) swap_dimensions(layout, i, i - 1);
  }
  int last = 0;
  for (int d = 1; d < rank; ++d) {
    if (walked_as_one(layout, last, d)) {
      layout.sizes[last] *= layout.sizes[d];
      continue;
    }
    swap_dimensions(layout, ++last, d);
  }
  return last + 1;
}

struct alignas(8) Element16 {
  uint64_t low, high;
};

// Visits n elements of operand k from `position` on, row by row: row(pointer to the first, elements done before,
// count).
template <typename Row>
void for_each_row(const StridedLayout& layout, int k, char* base, int64_t position, int64_t n, Row row) {
  const int64_t* strides = layout.strides[k];
  int64_t index[kMaxLoopRank];
  for (int d = 0; d < layout.rank; ++d) {
    index[d] = position % layout.sizes[d];
    position /= layout.sizes[d];
    base += index[d] * strides[d];
  }
  for (int64_t done = 0;;) {
    const int64_t count = std::min(layout.sizes[0] - index[0], n - done);
    row(base, done, count);
    done += count;
    if (done == n) return;
    base -= index[0] * strides[0];  // to the start of the next row
    index[0] = 0;
    for (int d = 1; d < layout.rank; ++d) {
      base += strides[d];
      if (++index[d] < layout.sizes[d]) break;
      base -= index[d] * strides[d];
      index[d] = 0;
    }
  }
}

template <typename T>
void gather_elements(void* dense, const StridedLayout& layout, int k, char* base, int64_t position, int64_t n) {
  T* to = static_cast<T*>(dense);
  const int64_t stride = layout.strides[k][0];
  for_each_row(layout, k, base, position, n, [=](const char* row, int64_t done, int64_t count) {
    if (stride == int64_t{sizeof(T)}) {
      std::memcpy(to + done, row, static_cast<size_t>(count) * sizeof(T));
    } else if (stride == 0) {
      T value;
      std::memcpy(&value, row, sizeof(T));
      std::fill_n(to + done, count, value);
    } else {
      for (int64_t i = 0; i < count; ++i) std::memcpy(to + done + i, row + i * stride, sizeof(T));
    }
  });
}

template <typename T>
void scatter_elements(const void* dense, const StridedLayout& layout, int k, char* base, int64_t position, int64_t n) {
  const T* from = static_cast<const T*>(dense);
  const int64_t stride = layout.strides[k][0];
  for_each_row(layout, k, base, position, n, [=](char* row, int64_t done, int64_t count) {
    if (stride == int64_t{sizeof(T)}) {
      std::memcpy(row, from + done, static_cast<size_t>(count) * sizeof(T));
    } else {
      for (int64_t i = 0; i < count; ++i) std::memcpy(row + i * stride, from + done + i, sizeof(T));
    }
  });
}

}  // namespace

int64_t StridedLayout::offset(int k, int64_t position) const {
  int64_t result = 0;
  for (int d = 0; d < rank - 1; ++d) {
    result += position % sizes[d] * strides[k][d];
    position /= sizes[d];
  }
  return result + position * strides[k][rank - 1];
}

bool StridedLayout::dense(int k, int64_t bytes) const {
  for (int d = 0; d < rank; ++d) {
    if (strides[k][d] != bytes) return false;
    bytes *= sizes[d];
  }
  return true;
}

bool make_layout(const mydev_buffer* buffers, int operands, StridedLayout& layout) {
  const int32_t rank = buffers[0].rank;
  if (rank > kMaxLoopRank || operands > kMaxLoopOperands) return false;
  int64_t bytes[kMaxLoopOperands];
  const auto shaped = [&](int k) { return k == 0 || buffers[k].data != nullptr; };
  for (int k = 0; k < operands; ++k) {
    if (shaped(k) && buffers[k].rank != rank) return false;
    bytes[k] = dtype_size(static_cast<mydev_dtype>(buffers[k].dtype));
  }
  layout.operands = operands;
  layout.count = 1;
  int kept = 0;
  for (int d = rank - 1; d >= 0; --d) {
    const int64_t size = buffers[0].sizes[d];
    layout.count *= size;
    if (size == 1) continue;
    layout.sizes[kept] = size;
    for (int k = 0; k < operands; ++k) layout.strides[k][kept] = shaped(k) ? buffers[k].strides[d] * bytes[k] : 0;
    ++kept;
  }
  if (layout.count != 0) {  // operands without elements may have NULL data and are not looked at
    for (int k = 1; k < operands; ++k) {
      if (shaped(k) && !std::equal(buffers[0].sizes, buffers[0].sizes + rank, buffers[k].sizes)) return false;
    }
  }
  if (kept == 0) {  // one element: a dense dimension of size 1
    layout.rank = 1;
    layout.sizes[0] = 1;
    for (int k = 0; k < operands; ++k) layout.strides[k][0] = bytes[k];
  } else {
    layout.rank = kept == 1 ? 1 : collapse(layout, kept);
  }
  return true;
}

void gather(void* dense, const StridedLayout& layout, int k, const void* base, int64_t position, int64_t n,
            int64_t bytes) {
  char* first = static_cast<char*>(const_cast<void*>(base));
  switch (bytes) {
    case 1:
      return gather_elements<uint8_t>(dense, layout, k, first, position, n);
    case 2:
      return gather_elements<uint16_t>(dense, layout, k, first, position, n);
    case 4:
      return gather_elements<uint32_t>(dense, layout, k, first, position, n);
    case 8:
      return gather_elements<uint64_t>(dense, layout, k, first, position, n);
    default:
      return gather_elements<Element16>(dense, layout, k, first, position, n);
  }
}

void scatter(const void* dense, const StridedLayout& layout, int k, void* base, int64_t position, int64_t n,
             int64_t bytes) {
  char* first = static_cast<char*>(base);
  switch (bytes) {
    case 1:
      return scatter_elements<uint8_t>(dense, layout, k, first, position, n);
    case 2:
      return scatter_elements<uint16_t>(dense, layout, k, first, position, n);
    case 4:
      return scatter_elements<uint32_t>(dense, layout, k, first, position, n);
    case 8:
      return scatter_elements<uint64_t>(dense, layout, k, first, position, n);
    default:
      return scatter_elements<Element16>(dense, layout, k, first, position, n);
  }
}

}  // namespace mydev::kernels
