// The bytes that a command touches: a dense range, or rows of bytes at regular distances. Values, thread-safe as such.
#pragma once

#include <cstdint>
#include <vector>

#include "mydev/custom_call.h"

namespace mydev::validation {

struct MemoryView {
  struct Dimension {
    uint64_t count, pitch;  // pitch in bytes
  };
  uintptr_t begin = 0, end = 0;  // of the whole
  uint64_t row = 0;              // bytes that lie together, from `begin` on
  std::vector<Dimension> outer;  // of rows, by pitch, the largest last; none: dense

  bool empty() const noexcept { return begin == end; }
  bool dense() const noexcept { return outer.empty(); }

  static MemoryView of_bytes(const void* data, uint64_t bytes);
  // Windows that overlap each other count as all bytes between them. Empty for a buffer without elements.
  static MemoryView of_buffer(const mydev_buffer& buffer);
};

// Whether two views have a byte in common. Exact if one is dense, if both have rows at one distance, and up to some
// thousand rows. Beyond that views of rows count as apart, since false alarms are worse.
bool overlap(const MemoryView& a, const MemoryView& b);

}  // namespace mydev::validation
