// Whether freed memory is kept for later requests, or each block is memory of the driver's own.
//
// On at first. While it is off, allocate() asks the driver for each block, and what is freed then goes back to it: at
// once where the streams that used it run as they are called, else when they have passed the free and somebody next
// allocates, or asks for figures. A block keeps to how it was allocated, whatever the switch says when it is freed.
// Memory of pools, which graphs are, stays in them. For the whole process; thread-safe; at no cost of an allocation but
// a predicted branch.
#pragma once

#include <atomic>

namespace mydev {

void set_memory_caching(bool on) noexcept;

namespace detail {
extern constinit std::atomic<bool> memory_uncached;
}

inline bool memory_cached() noexcept {
  return !detail::memory_uncached.load(std::memory_order_relaxed);
}

}  // namespace mydev
