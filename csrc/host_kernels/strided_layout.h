// The iteration space that the operands of a pointwise kernel or copy share.
//
// Operands of the same rank and sizes (stride 0 where broadcast) are brought to the fewest dimensions: those of size 1
// go, the rest are ordered by stride, neighbours that every operand walks as one are merged. Dimension 0 is then the
// innermost, and an element's place in the order of visiting is its linear position. Strides are in bytes and may be 0
// or negative. Nothing here is inline: csrc/host_kernels/isa uses it too (see isa.h).
#pragma once

#include <cstdint>

#include "mydev/custom_call.h"

namespace mydev::kernels {

inline constexpr int kMaxLoopRank = 64;
inline constexpr int kMaxLoopOperands = 6;

struct StridedLayout {
  int operands;
  int rank;       // at least 1
  int64_t count;  // elements
  int64_t sizes[kMaxLoopRank];
  int64_t strides[kMaxLoopOperands][kMaxLoopRank];

  // Bytes from operand k's first element to the element at `position`.
  int64_t offset(int k, int64_t position) const;
  // Operand k's elements, of `bytes` each, lie one after the other in linear order.
  bool dense(int k, int64_t bytes) const;
};

// False if the operands do not share one shape, or have too many dimensions. An operand whose data is NULL counts as
// broadcast, but for the first.
bool make_layout(const mydev_buffer* buffers, int operands, StridedLayout& layout);

// Copies n elements of `bytes` (1, 2, 4, 8 or 16) of operand k, from `position` on, between operand k and dense memory.
// `base` is the operand's first element.
void gather(void* dense, const StridedLayout& layout, int k, const void* base, int64_t position, int64_t n,
            int64_t bytes);
void scatter(const void* dense, const StridedLayout& layout, int k, void* base, int64_t position, int64_t n,
             int64_t bytes);

}  // namespace mydev::kernels
