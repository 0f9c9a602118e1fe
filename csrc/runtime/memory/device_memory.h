// The memory of one device: its segments, the free chunks of each stream, deferred frees, limits and statistics.
// Private to the allocator; caching_allocator.h is the interface.
//
// Locks, outermost first: reclaim_mutex_ (one thread at a time gives memory back to the driver), registry_mutex_ (which
// thread caches exist), mutex_ (everything else here), the spin lock of a thread cache. mutex_ is never held while
// waiting for a stream: completions of asynchronous work free blocks. Objects are made at first use and live until the
// process ends.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/interval_map.h"
#include "runtime/memory/allocator_statistics.h"
#include "runtime/memory/memory_segment.h"
#include "runtime/memory/private_pool.h"
#include "runtime/stream/event.h"

namespace mydev {

class ThreadCache;

class DeviceMemory {
 public:
  // Raises if the device may not be used (no such device, forked child).
  static DeviceMemory& of(Device& device);
  // Free and total bytes as the driver sees them. If it leaves that to the runtime, they follow from the memory
  // reserved here.
  static void info(Device& device, uint64_t& free_bytes, uint64_t& total_bytes);
  // nullptr if nothing has been allocated there.
  static DeviceMemory* existing(int device) noexcept;

  explicit DeviceMemory(Device& device);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  Device& device() const noexcept { return device_; }
  // Sizes of chunks are multiples of it; a power of two.
  size_t granularity() const noexcept { return granularity_; }

  // --- for blocks that go to or come from the user ---

  // A block above kSmallLimit, or one of a class for a thread that has no cache (any more). `cache`: the thread's own,
  // or nullptr. Raises RESOURCE_EXHAUSTED.
  Chunk* allocate(Stream& stream, size_t requested, ThreadCache* cache);
  // A block of driver memory of its own, which is not kept when it is freed. If the driver has no more, cached memory
  // serves. `cache` and errors are as for allocate.
  Chunk* allocate_uncached(Stream& stream, size_t requested, ThreadCache* cache);
  // A block that has no memory of the device: of 0 bytes, at nullptr, or of addresses alone.
  Chunk* make_unbacked(Stream& stream, void* data, size_t bytes);
  // Takes back a block that no one refers to; the free is deferred if other streams have used it.
  void free(Chunk* chunk, ThreadCache* cache) noexcept;
  void record_stream(Chunk* chunk, Stream& stream);

  // --- for thread caches ---

  // At least one and up to `count` chunks of a class, chained by next_cached. Raises RESOURCE_EXHAUSTED.
  Chunk* take_for_cache(Stream& stream, int size_class, size_t count);
  void return_from_cache(Chunk* chain) noexcept;
  void add_cache(ThreadCache* cache);
  void remove_cache(ThreadCache* cache) noexcept;  // with what it holds and has counted

  // --- for users of the allocator ---

  // Empties the cache of all but live pools, or of one pool that is gone.
  void empty_cache(PoolId pool = {});
  // Gives uncached blocks back to the driver, as far as the streams that used them have passed.
  void return_what_is_uncached();
  AllocatorStats stats();
  void reset_accumulated_stats();
  void reset_peak_stats();
  void append_snapshot(std::vector<SegmentSnapshot>& snapshot);
  // The pool of each segment of a private pool, by the segment's address; and the memory that each pool has reserved.
  std::map<uintptr_t, PoolId> segments_of_pools();
  std::map<PoolId, PoolStats> reserved_by_pool();
  bool has_segments(const Stream& key);
  bool contains(const void* data);
  Chunk* live_chunk_at(const void* data);  // nullptr if nobody has that memory
  void set_memory_fraction(double fraction);
  double memory_fraction();

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct FreeSets {
    FreeChunks small, large;
    FreeChunks& of(bool is_large) { return is_large ? large : small; }
  };
  struct DeferredFree {
    std::unique_ptr<Event> event;
    Chunk* chunk;
  };

  // Chunks and segments (device_memory.cpp). All need mutex_.
  size_t block_size(size_t requested) const;
  Chunk* new_chunk();
  void hand_out_counted(Chunk* chunk, size_t requested, ThreadCache* cache) noexcept;
  void recycle(Chunk* chunk) noexcept;
  Chunk* take_free(Stream& stream, size_t size);
  Chunk* take_from_new_segment(Stream& stream, size_t size, size_t segment_bytes);
  Chunk* cut(Chunk* chunk, size_t size);
  void put_free(Chunk* chunk) noexcept;
  void retire(Chunk* chunk) noexcept;
  void mark_free(Chunk* chunk) noexcept;
  void mark_out(Chunk* chunk) noexcept;
  void absorb(Chunk* chunk, Chunk* follower) noexcept;
  size_t limit() const noexcept;

  // Giving memory back, and doing without (memory_reclaim.cpp).
  Chunk* take(Lock& lock, Stream& stream, size_t size, size_t requested);
  Chunk* take_after_reclaiming(Lock& lock, Stream& stream, size_t size, size_t requested);
  Chunk* take_as_last_resort(const Stream& stream, size_t size);
  void defer_free(Chunk* chunk) noexcept;
  void collect_deferred_frees();
  void wait_for_deferred_frees(Lock& lock);
  void release_segments(Lock& lock, size_t bytes, PoolId pool = {});
  void collect_garbage(Lock& lock, size_t segment_bytes);
  void flush_thread_caches() noexcept;
  void return_uncached(Lock& lock) noexcept;
  void forget(const Segment& segment);
  void put_back(std::unique_ptr<Segment> segment);
  std::string out_of_memory_message(Lock& lock, size_t requested);

  // Statistics (memory_statistics.cpp). All need mutex_.
  void count_allocated(bool large, const Tally& tally) noexcept;
  void count_freed(bool large, const Tally& tally) noexcept;
  void count_inactive(bool large, const Tally& tally) noexcept;
  void count_segment(const Segment& segment, int sign) noexcept;
  void add_activity(const CacheActivity& activity) noexcept;
  void count_activity_of(ThreadCache* cache) noexcept;
  void update_inactive_split() noexcept;
  Lock lock_and_count();

  Device& device_;
  size_t granularity_;

  std::mutex reclaim_mutex_;

  std::mutex registry_mutex_;
  std::vector<ThreadCache*> caches_;

  std::mutex mutex_;
  IntervalMap<std::unique_ptr<Segment>> segments_;
  std::unordered_map<Stream*, FreeSets> free_;
  std::unordered_map<Stream*, std::deque<DeferredFree>> deferred_frees_;  // by the stream that must pass, oldest first
  std::vector<std::unique_ptr<Event>> idle_events_;
  std::deque<Chunk> chunks_;  // all that were ever made
  Chunk* recycled_ = nullptr;
  Chunk* uncached_ = nullptr;     // free and of segments that are not cached, chained; in no set
  size_t uncached_segments_ = 0;  // all of them
  uint64_t tick_ = 0;
  double fraction_ = 1.0;
  AllocatorStats stats_;
  std::map<PoolId, PoolStats> reserved_by_pool_;  // of private pools; gone ones stay until the next reset
  Tally small_out_;                               // chunks that caches and users have from small segments
  std::array<Tally, 2> free_split_;               // free chunks of split segments: small, large
};

}  // namespace mydev
