// Memory that is kept apart for some use: each of the driver's streams gets a key of its own in the allocator.
//
// What is freed stays in the pool, for who allocates from it, and goes back to the driver only once the pool is gone.
// Thread-safe.
#pragma once

#include <map>
#include <mutex>

#include "runtime/memory/memory_pool.h"

namespace mydev {

class PrivatePool final : public MemoryPool {
 public:
  ~PrivatePool() override;
  Stream& key_of(const Stream& stream) override;

 private:
  std::mutex mutex_;
  std::map<const Stream*, Stream*> keys_;
};

}  // namespace mydev
