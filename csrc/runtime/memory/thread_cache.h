// Per-thread caches of small blocks, which make allocating and freeing one cost a few nanoseconds.
//
// A thread has one ThreadCache per device, with a StreamBins for each stream that it has used there: a stack of free
// chunks per size class. A spin lock per ThreadCache, taken by its own thread without contention, lets another thread
// flush it (empty_cache, out of memory) or read it (statistics, snapshot). The lock is a leaf: nothing is called under
// it. The size of a cache is bounded. Beyond the bound half of the bin goes back to the device's pool, from which the
// owner of the cache fills it.
#pragma once

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/memory/allocator_statistics.h"
#include "runtime/memory/memory_segment.h"
#include "runtime/memory/size_classes.h"

namespace mydev {

class SpinLock {
 public:
  void lock() noexcept {
    while (locked_.exchange(true, std::memory_order_acquire)) wait();
  }
  void unlock() noexcept { locked_.store(false, std::memory_order_release); }

 private:
  [[gnu::cold]] [[gnu::noinline]] void wait() noexcept {
    for (int spins = 0; locked_.load(std::memory_order_relaxed); ++spins) {
      if (spins > 100) sched_yield();  // its holder may have lost the processor
    }
  }
  std::atomic<bool> locked_{false};
};

inline constexpr size_t kCacheBytes = size_t{32} << 20;  // that a thread keeps for one stream
inline constexpr size_t kBinBytes = size_t{8} << 20;     // of one class, as far as kMinBinBlocks and kMaxBinBlocks let
inline constexpr size_t kMinBinBlocks = 16;
inline constexpr size_t kMaxBinBlocks = 1024;
inline constexpr size_t kRefillBytes = size_t{64} << 10;  // taken from the pool at once
inline constexpr size_t kMaxRefillBlocks = 32;

constexpr size_t bin_capacity(int size_class) {
  return std::clamp(kBinBytes / class_size(size_class), kMinBinBlocks, kMaxBinBlocks);
}
constexpr size_t refill_count(int size_class) {
  return std::clamp(kRefillBytes / class_size(size_class), size_t{1}, kMaxRefillBlocks);
}

struct Bin {
  Chunk* top = nullptr;
  uint32_t count = 0;
  uint32_t capacity = 0;
};

class ThreadCache;

struct StreamBins {
  Stream* stream;
  const Stream* served;  // what the thread allocates with when it takes from here; of the bins that it used last
  ThreadCache* cache;
  size_t bytes = 0;  // in all bins
  std::array<Bin, kSizeClasses> bins;
};

class ThreadCache {
 public:
  // Sizes of chunks are multiples of `granularity`, a power of two.
  explicit ThreadCache(size_t granularity) noexcept : granularity_(granularity) {}
  ThreadCache(const ThreadCache&) = delete;
  ThreadCache& operator=(const ThreadCache&) = delete;

  // --- by the owning thread ---

  StreamBins& bins_for(Stream& stream);
  // 1 <= bytes <= kSmallLimit; nullptr if there is no chunk of the class.
  Chunk* take(StreamBins& bins, size_t bytes) noexcept;
  // Gives out the first chunk of a chain of the class of `bytes`, and keeps the others.
  Chunk* refill(StreamBins& bins, Chunk* chain, size_t bytes) noexcept;
  // Puts the chunk, which is of a class and of this stream, into its bin. False: the bin or the cache is now too full,
  // see trim.
  bool give(StreamBins& bins, Chunk* chunk) noexcept;
  // Takes out half of the bin, or of all bins if the cache is too full; chained.
  Chunk* trim(StreamBins& bins, int size_class) noexcept;
  int class_of(size_t bytes) const noexcept { return size_class(round_up(bytes, granularity_)); }

  // --- by any thread ---

  // Takes out all chunks, chained.
  Chunk* detach_all() noexcept;
  CacheActivity drain_activity() noexcept;
  // For several caches at once: between lock and unlock, activity_locked may be used and no block changes hands.
  void lock() noexcept { lock_.lock(); }
  void unlock() noexcept { lock_.unlock(); }
  CacheActivity drain_activity_locked() noexcept;

 private:
  void count_allocated(Chunk* chunk, size_t bytes) noexcept;

  SpinLock lock_;
  CacheActivity activity_;
  size_t granularity_;
  std::vector<std::unique_ptr<StreamBins>> streams_;  // changed by the owner under the lock
};

// Makes the calling thread look anew for the bins to use: it has entered a pool or left one. In caching_allocator.cpp.
void forget_last_bins() noexcept;

inline void ThreadCache::count_allocated(Chunk* chunk, size_t bytes) noexcept {
  hand_out(chunk, bytes);
  CacheActivity& activity = activity_;
  const auto size = static_cast<int64_t>(chunk->size);
  const auto requested = static_cast<int64_t>(bytes);
  activity.allocated.count += 1;
  activity.allocated.bytes += size;
  activity.allocated.requested += requested;
  activity.live.count += 1;
  activity.live.bytes += size;
  activity.live.requested += requested;
  activity.peak.count = std::max(activity.peak.count, activity.live.count);
  activity.peak.bytes = std::max(activity.peak.bytes, activity.live.bytes);
  activity.peak.requested = std::max(activity.peak.requested, activity.live.requested);
}

inline Chunk* ThreadCache::take(StreamBins& bins, size_t bytes) noexcept {
  Bin& bin = bins.bins[static_cast<size_t>(class_of(bytes))];
  lock_.lock();
  Chunk* chunk = bin.top;
  if (chunk != nullptr) [[likely]] {
    bin.top = chunk->next_cached;
    --bin.count;
    bins.bytes -= chunk->size;
    count_allocated(chunk, bytes);
  }
  lock_.unlock();
  return chunk;
}

inline bool ThreadCache::give(StreamBins& bins, Chunk* chunk) noexcept {
  Bin& bin = bins.bins[static_cast<size_t>(chunk->size_class)];
  const auto size = static_cast<int64_t>(chunk->size);
  lock_.lock();
  activity_.live.count -= 1;
  activity_.live.bytes -= size;
  activity_.live.requested -= static_cast<int64_t>(chunk->requested);
  chunk->references.store(0, std::memory_order_relaxed);
  chunk->next_cached = bin.top;
  bin.top = chunk;
  ++bin.count;
  bins.bytes += chunk->size;
  const bool fits = bin.count <= bin.capacity && bins.bytes <= kCacheBytes;
  lock_.unlock();
  return fits;
}

}  // namespace mydev
