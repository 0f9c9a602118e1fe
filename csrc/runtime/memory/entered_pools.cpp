#include "runtime/memory/entered_pools.h"

#include <algorithm>
#include <vector>

#include "runtime/base/device_name.h"
#include "runtime/base/status.h"
#include "runtime/memory/no_reclaim.h"
#include "runtime/memory/thread_cache.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

constinit thread_local int detail::pools_entered = 0;

namespace {

struct Entry {
  int device;
  std::shared_ptr<PrivatePool> pool;
  const Capture* capture;          // of the thread's current stream when the pool was entered
  const Stream* stream = nullptr;  // served last, with this key
  Stream* key = nullptr;
};

// The innermost pool is the last. Touched only while pools_entered is not 0, or by enter and leave: never past the
// thread's end.
std::vector<Entry>& entries() {
  thread_local struct Entries {
    std::vector<Entry> list;
    ~Entries() {  // of a thread that ends inside of one
      detail::pools_entered = 0;
      forget_last_bins();
    }
  } entered;
  return entered.list;
}

}  // namespace

void enter_pool(int device, std::shared_ptr<PrivatePool> pool) {
  const Capture* capture = current_stream(device).capture();
  entries().push_back({device, std::move(pool), capture});
  ++detail::pools_entered;
  forget_last_bins();
}

void leave_pool(int device, PoolId pool) {
  std::vector<Entry>& list = entries();
  const auto found = std::find_if(list.rbegin(), list.rend(), [&](const Entry& entry) {
    return entry.device == device && entry.pool->id() == pool;
  });
  MYDEV_CHECK(found != list.rend(), MYDEV_FAILED_PRECONDITION, "this thread has not entered pool (", pool.first, ", ",
              pool.second, ") on ", device_text(device), "; leave a pool on the thread that entered it");
  const std::shared_ptr<PrivatePool> left = std::move(found->pool);  // the last reference gives its memory back
  list.erase(std::next(found).base());
  --detail::pools_entered;
  forget_last_bins();
}

Stream& key_of_entered_pool(Stream& stream) {
  if (NoReclaim::active()) return stream.memory_pool();
  std::vector<Entry>& list = entries();
  const auto found = std::find_if(list.rbegin(), list.rend(),
                                  [&](const Entry& entry) { return entry.device == stream.device().index; });
  if (found == list.rend()) return stream.memory_pool();
  if (stream.capture() != nullptr && stream.capture() != found->capture) return stream.memory_pool();
  if (found->stream != &stream) {
    found->key = &found->pool->key_of(stream);
    found->stream = &stream;
  }
  return *found->key;
}

}  // namespace mydev
