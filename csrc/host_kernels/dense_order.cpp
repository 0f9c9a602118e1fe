#include "host_kernels/dense_order.h"

#include <array>

#include "runtime/frame/frame.h"

namespace mydev::kernels {

unsigned dense_orders_of(const mydev_buffer& buffer) noexcept {
  unsigned orders = kNeitherOrder;
  for (const DenseOrder order : {kChannelsFirst, kChannelsLast}) {
    std::array<int64_t, kMaxRank> strides;
    dense_strides(buffer.rank, buffer.sizes, order, strides.data());
    bool same = true;
    for (int i = 0; i < buffer.rank; ++i) same &= buffer.sizes[i] == 1 || strides[i] == buffer.strides[i];
    if (same) orders |= order;
  }
  return orders;
}

void dense_strides(int rank, const int64_t* sizes, DenseOrder order, int64_t* strides) noexcept {
  const bool channels_last = order == kChannelsLast && rank > 1;
  int64_t stride = 1;
  if (channels_last) {
    strides[1] = 1;
    stride = sizes[1];
  }
  for (int i = rank - 1; i >= 0; --i) {
    if (i == 1 && channels_last) continue;
    strides[i] = stride;
    stride *= sizes[i];
  }
}

int64_t count_elements(const mydev_buffer& buffer) noexcept {
  int64_t count = 1;
  for (int i = 0; i < buffer.rank; ++i) count *= buffer.sizes[i];
  return count;
}

}  // namespace mydev::kernels
