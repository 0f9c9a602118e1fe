// Switches between keeping freed memory for later requests and asking the driver for each block.
//
// It is on at first. While it is off, allocate() asks the driver for each block, and a freed block goes back to the
// driver. It goes back at once if the streams that used it are inline. Otherwise it goes back when they have passed the
// free and somebody next allocates, or asks for figures. A block keeps to how it was allocated, whatever the switch
// says when it is freed. Memory of pools, as graphs have them, stays in the pools. The switch is for the whole process.
// Thread-safe; it costs an allocation one predicted branch.
#pragma once

#include <atomic>

#include "runtime/base/api.h"

namespace mydev {

MYDEV_API void set_memory_caching(bool on) noexcept;

namespace detail {
MYDEV_API extern constinit std::atomic<bool> memory_uncached;
}

inline bool memory_cached() noexcept {
  return !detail::memory_uncached.load(std::memory_order_relaxed);
}

}  // namespace mydev
