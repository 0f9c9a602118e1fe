// A source of memory while a stream captures, or a thread has entered a pool (entered_pools.h).
#pragma once

#include "runtime/stream/stream.h"

namespace mydev {

class MemoryPool {
 public:
  MemoryPool() = default;
  virtual ~MemoryPool() = default;  // blocks that are still in use stay valid
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // Returns the key to allocate with, in place of the stream. It belongs to the pool alone. Thread-safe.
  virtual Stream& key_of(const Stream& stream) = 0;
  // Whether `key` is one of those keys. Thread-safe.
  virtual bool has_key(const Stream& key) const = 0;
};

}  // namespace mydev
