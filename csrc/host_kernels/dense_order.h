// The two dense orders of [N, C, spatial...]: channels-first (N, C, spatial) and channels-last (N, spatial, C).
#pragma once

#include <cstdint>

#include "mydev/custom_call.h"

namespace mydev::kernels {

// A set: an operand may be in both orders (one channel), or in neither.
enum DenseOrder : unsigned { kNeitherOrder = 0, kChannelsFirst = 1, kChannelsLast = 2 };

// Which of the orders the buffer's strides are; dimensions of one element do not count.
unsigned dense_orders_of(const mydev_buffer& buffer) noexcept;
// `order` is one of the two; strides has room for rank entries.
void dense_strides(int rank, const int64_t* sizes, DenseOrder order, int64_t* strides) noexcept;
int64_t count_elements(const mydev_buffer& buffer) noexcept;

}  // namespace mydev::kernels
