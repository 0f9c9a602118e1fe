// DeviceMemory: blocks that are segments of their own and are not kept (caching_switch.h).
//
// The stream of such a block counts as one of its users, so that the free waits for it as for others. Blocks that all
// users have passed are chained in uncached_. The driver gets them back from there when nobody can be waiting for this
// thread.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/memory/block_index.h"
#include "runtime/memory/caching_switch.h"
#include "runtime/memory/device_memory.h"
#include "runtime/memory/memory_events.h"
#include "runtime/memory/no_reclaim.h"
#include "runtime/memory/size_classes.h"

namespace mydev {

namespace detail {
constinit std::atomic<bool> memory_uncached{false};
}

void set_memory_caching(bool on) noexcept {
  detail::memory_uncached.store(!on, std::memory_order_relaxed);
}

Chunk* DeviceMemory::allocate_uncached(Stream& stream, size_t requested, ThreadCache* cache) {
  MYDEV_CHECK(requested <= SIZE_MAX / 4, MYDEV_RESOURCE_EXHAUSTED, "cannot allocate ", requested,
              " bytes: no device has that much memory");
  const size_t size = round_up(requested, granularity_);
  Lock lock(mutex_);
  collect_deferred_frees();
  return_uncached(lock);
  Chunk* chunk = take_from_new_segment(stream, size, size);
  if (chunk != nullptr) {
    chunk->segment->cached = false;
    ++uncached_segments_;
    if (stream.asynchronous()) chunk->users = std::make_unique<std::vector<Stream*>>(1, &stream);
  } else {
    chunk = take_after_reclaiming(lock, stream, size, requested);
  }
  chunk->size_class = -1;  // of its own size
  hand_out_counted(chunk, requested, cache);
  return chunk;
}

// Called for a chunk that its user has freed and all streams have passed.
void DeviceMemory::retire(Chunk* chunk) noexcept {
  if (chunk->segment->cached) return put_free(chunk);
  mark_free(chunk);
  chunk->next_cached = std::exchange(uncached_, chunk);
}

void DeviceMemory::return_what_is_uncached() {
  Lock lock(mutex_);
  if (uncached_segments_ == 0) return;
  collect_deferred_frees();
  return_uncached(lock);
}

// Gives the blocks of uncached_ back to the driver. Blocks that it does not take back stay cached. Unlocks meanwhile.
void DeviceMemory::return_uncached(Lock& lock) noexcept {
  while (uncached_ != nullptr && !NoReclaim::active()) {
    Chunk* chunk = std::exchange(uncached_, uncached_->next_cached);
    --uncached_segments_;
    if (device_.host_accessible()) block_index::clear(chunk->data);
    std::unique_ptr<Segment> owned = segments_.extract(chunk->data);
    Segment& segment = *owned;
    lock.unlock();
    const mydev_code code = device_.driver->memory_free(device_.index, segment.data, segment.size);
    if (code != MYDEV_OK) {
      const std::string message = "memory of device " + std::to_string(device_.index) +
                                  " was not given back, and stays cached: " + device_.driver->last_error() + " [" +
                                  code_name(code) + "]";
      log(MYDEV_LOG_WARNING, message.c_str());
    }
    lock.lock();
    if (code == MYDEV_OK) {
      forget(segment);
    } else {
      segment.cached = true;
      put_back(std::move(owned));
    }
  }
}

}  // namespace mydev
