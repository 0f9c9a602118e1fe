// Memory that is kept apart for some use, a graph's or one of the user's. In a pool each of the driver's streams gets a
// key of its own in the allocator, so that freed memory stays in the pool, for those who allocate from it.
//
// Memory of a pool goes back to the driver only once the pool is gone. A pool made with `returns_memory` then gives
// back at once all memory that is not in use. Others give it back when the cache is emptied or memory is short. Blocks
// that outlive their pool stay valid. All who ask for a pool by its id share it; ids are never used twice, and {0, 0}
// names none. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/base/api.h"
#include "runtime/memory/memory_pool.h"

namespace mydev {

using PoolId = std::pair<unsigned long long, unsigned long long>;  // as c10::MempoolId_t

struct PoolOptions {
  bool last_resort = false;     // its free memory also serves others that would be out of memory
  bool returns_memory = false;  // see above
};

class MYDEV_API PrivatePool final : public MemoryPool {
 public:
  // Returns a new id {n, 0}: for graphs.
  static PoolId next_id();
  // The live pool of that id, or nullptr.
  static std::shared_ptr<PrivatePool> find(PoolId id);
  // The live pool of that id, or a new one.
  static std::shared_ptr<PrivatePool> with_id(PoolId id);
  // A new pool with the id {0, n}.
  static std::shared_ptr<PrivatePool> make(PoolOptions options);

  PrivatePool() : PrivatePool(next_id(), {}) {}
  PrivatePool(PoolId id, PoolOptions options) : id_(id), options_(options) {}
  ~PrivatePool() override;

  PoolId id() const noexcept { return id_; }
  Stream& key_of(const Stream& stream) override;
  bool has_key(const Stream& key) const override;

 private:
  const PoolId id_;
  const PoolOptions options_;
  mutable std::mutex mutex_;
  std::map<const Stream*, Stream*> keys_;
};

// --- for the allocator, which may hold its locks ---

// Returns the id of the live pool whose key it is, or {0, 0}.
MYDEV_API PoolId pool_of_key(const Stream& key);
// Keys of pools that serve the stream as a last resort.
std::vector<Stream*> last_resort_keys(const Stream& stream);

}  // namespace mydev
