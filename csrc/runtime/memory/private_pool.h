// Memory that is kept apart for some use: each of the driver's streams gets a key of its own in the allocator.
//
// What is freed stays in the pool, for who allocates from it, and goes back to the driver only once the pool is gone.
// Thread-safe.
#pragma once

#include <map>
#include <mutex>

#include "runtime/stream/stream.h"

namespace mydev {

class PrivatePool {
 public:
  PrivatePool() = default;
  ~PrivatePool();  // blocks that are still out stay theirs who have them
  PrivatePool(const PrivatePool&) = delete;
  PrivatePool& operator=(const PrivatePool&) = delete;

  // To allocate with, in place of the stream.
  Stream& key_of(const Stream& stream);

 private:
  std::mutex mutex_;
  std::map<const Stream*, Stream*> keys_;
};

}  // namespace mydev
