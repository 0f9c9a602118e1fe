// Where memory comes from while a stream captures, or a thread has entered a pool (entered_pools.h).
#pragma once

#include "runtime/stream/stream.h"

namespace mydev {

class MemoryPool {
 public:
  MemoryPool() = default;
  virtual ~MemoryPool() = default;  // blocks that are still out stay theirs who have them
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // To allocate with, in place of the stream: a key that is the pool's alone. Thread-safe.
  virtual Stream& key_of(const Stream& stream) = 0;
  // Whether it is one of those keys. Thread-safe.
  virtual bool has_key(const Stream& key) const = 0;
};

}  // namespace mydev
