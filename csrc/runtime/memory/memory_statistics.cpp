// DeviceMemory: statistics and the snapshot.
//
// Small blocks are counted by the thread caches; their figures are added to stats_ when it is read, and before each
// change that this file makes for the same thread, so that peaks are right. Inactive split memory is worked out at
// these times from what is free: its peak is that of these samples.
#include <algorithm>

#include "runtime/memory/allocator_settings.h"
#include "runtime/memory/device_memory.h"
#include "runtime/memory/thread_cache.h"

namespace mydev {
namespace {

void change(Stat& stat, int64_t amount) noexcept {
  stat.current += amount;
  (amount >= 0 ? stat.allocated : stat.freed) += amount >= 0 ? amount : -amount;
  stat.peak = std::max(stat.peak, stat.current);
}

void change(PoolStats& stats, bool large, int64_t amount) noexcept {
  change(stats.all, amount);
  change(large ? stats.large_pool : stats.small_pool, amount);
}

void add(Stat& stat, int64_t live, int64_t peak, int64_t allocated) noexcept {
  stat.peak = std::max(stat.peak, stat.current + peak);
  stat.current += live;
  stat.allocated += allocated;
  stat.freed += allocated - live;
}

void add_small(PoolStats& stats, int64_t live, int64_t peak, int64_t allocated) noexcept {
  add(stats.all, live, peak, allocated);
  add(stats.small_pool, live, peak, allocated);
}

template <typename F>
void for_each_stat(PoolStats& stats, F&& f) {
  f(stats.all);
  f(stats.small_pool);
  f(stats.large_pool);
}

template <typename F>
void for_each_stat(AllocatorStats& stats, F&& f) {
  for (PoolStats* pool :
       {&stats.allocation, &stats.segment, &stats.active, &stats.inactive_split, &stats.allocated_bytes,
        &stats.reserved_bytes, &stats.active_bytes, &stats.inactive_split_bytes, &stats.requested_bytes}) {
    for_each_stat(*pool, f);
  }
  f(stats.oversize_allocations);
  f(stats.oversize_segments);
}

}  // namespace

void DeviceMemory::count_allocated(bool large, const Tally& tally) noexcept {
  change(stats_.allocation, large, tally.count);
  change(stats_.allocated_bytes, large, tally.bytes);
  change(stats_.requested_bytes, large, tally.requested);
  change(stats_.active, large, tally.count);
  change(stats_.active_bytes, large, tally.bytes);
}

// The user has freed it; it stays active until count_inactive.
void DeviceMemory::count_freed(bool large, const Tally& tally) noexcept {
  change(stats_.allocation, large, -tally.count);
  change(stats_.allocated_bytes, large, -tally.bytes);
  change(stats_.requested_bytes, large, -tally.requested);
}

void DeviceMemory::count_inactive(bool large, const Tally& tally) noexcept {
  change(stats_.active, large, -tally.count);
  change(stats_.active_bytes, large, -tally.bytes);
}

// sign +1: it was allocated; -1: released.
void DeviceMemory::count_segment(const Segment& segment, int sign) noexcept {
  change(stats_.segment, segment.large, sign);
  change(stats_.reserved_bytes, segment.large, sign * static_cast<int64_t>(segment.size));
  if (segment.size >= allocator_settings().max_split_size) change(stats_.oversize_segments, sign);
  if (segment.pool != PoolId{}) {
    change(reserved_by_pool_[segment.pool], segment.large, sign * static_cast<int64_t>(segment.size));
  }
}

void DeviceMemory::add_activity(const CacheActivity& activity) noexcept {
  const auto& [live, peak, allocated] = activity;
  add_small(stats_.allocation, live.count, peak.count, allocated.count);
  add_small(stats_.allocated_bytes, live.bytes, peak.bytes, allocated.bytes);
  add_small(stats_.requested_bytes, live.requested, peak.requested, allocated.requested);
  add_small(stats_.active, live.count, peak.count, allocated.count);
  add_small(stats_.active_bytes, live.bytes, peak.bytes, allocated.bytes);
}

void DeviceMemory::count_activity_of(ThreadCache* cache) noexcept {
  if (cache != nullptr) add_activity(cache->drain_activity());
}

void DeviceMemory::add_cache(ThreadCache* cache) {
  const std::lock_guard guard(registry_mutex_);
  caches_.push_back(cache);
}

void DeviceMemory::remove_cache(ThreadCache* cache) noexcept {
  const std::lock_guard registry(registry_mutex_);
  std::erase(caches_, cache);
  return_from_cache(cache->detach_all());
  const std::lock_guard guard(mutex_);
  count_activity_of(cache);
}

// Small chunks that are out, less those that users have, are in thread caches: inactive like free ones.
void DeviceMemory::update_inactive_split() noexcept {
  const auto update = [](PoolStats& stats, int64_t small, int64_t large) {
    change(stats.small_pool, small - stats.small_pool.current);
    change(stats.large_pool, large - stats.large_pool.current);
    change(stats.all, small + large - stats.all.current);
  };
  update(stats_.inactive_split, free_split_[0].count + small_out_.count - stats_.active.small_pool.current,
         free_split_[1].count);
  update(stats_.inactive_split_bytes, free_split_[0].bytes + small_out_.bytes - stats_.active_bytes.small_pool.current,
         free_split_[1].bytes);
}

// Adds up all figures at one moment: no block changes hands in between. Returns the lock of mutex_.
DeviceMemory::Lock DeviceMemory::lock_and_count() {
  const std::lock_guard registry(registry_mutex_);
  Lock lock(mutex_);
  for (ThreadCache* cache : caches_) cache->lock();
  for (ThreadCache* cache : caches_) add_activity(cache->drain_activity_locked());
  for (ThreadCache* cache : caches_) cache->unlock();
  update_inactive_split();
  return lock;
}

AllocatorStats DeviceMemory::stats() {
  return_what_is_uncached();
  const Lock lock = lock_and_count();
  return stats_;
}

void DeviceMemory::reset_accumulated_stats() {
  const Lock lock = lock_and_count();
  for_each_stat(stats_, [](Stat& stat) { stat.allocated = stat.freed = 0; });
  stats_.num_alloc_retries = stats_.num_ooms = stats_.num_sync_all_streams = 0;
  stats_.num_device_alloc = stats_.num_device_free = 0;
  std::erase_if(reserved_by_pool_, [](const auto& entry) { return entry.second.all.current == 0; });
  for (auto& [pool, reserved] : reserved_by_pool_) {
    for_each_stat(reserved, [](Stat& stat) { stat.allocated = stat.freed = 0; });
  }
}

void DeviceMemory::reset_peak_stats() {
  const Lock lock = lock_and_count();
  for_each_stat(stats_, [](Stat& stat) { stat.peak = stat.current; });
  std::erase_if(reserved_by_pool_, [](const auto& entry) { return entry.second.all.current == 0; });
  for (auto& [pool, reserved] : reserved_by_pool_) {
    for_each_stat(reserved, [](Stat& stat) { stat.peak = stat.current; });
  }
}

std::map<PoolId, PoolStats> DeviceMemory::reserved_by_pool() {
  const std::lock_guard guard(mutex_);
  return reserved_by_pool_;
}

std::map<uintptr_t, PoolId> DeviceMemory::segments_of_pools() {
  std::map<uintptr_t, PoolId> pools;
  const std::lock_guard guard(mutex_);
  for (const auto& [address, range] : segments_) {
    if (range.value->pool != PoolId{}) pools.emplace(address, range.value->pool);
  }
  return pools;
}

void DeviceMemory::append_snapshot(std::vector<SegmentSnapshot>& snapshot) {
  return_what_is_uncached();
  const std::lock_guard registry(registry_mutex_);
  const Lock lock(mutex_);
  for (ThreadCache* cache : caches_) cache->lock();
  for (const auto& [address, range] : segments_) {
    const Segment& segment = *range.value;
    SegmentSnapshot& s = snapshot.emplace_back(SegmentSnapshot{.device = device_.index,
                                                               .address = address,
                                                               .total_size = segment.size,
                                                               .allocated_size = 0,
                                                               .active_size = 0,
                                                               .requested_size = 0,
                                                               .stream_id = segment.stream->id(),
                                                               .is_large = segment.large,
                                                               .blocks = {}});
    for (const Chunk* chunk = segment.first; chunk != nullptr; chunk = chunk->next) {
      using State = BlockSnapshot::State;
      const bool deferred = chunk->state == Chunk::State::kDeferred;
      const bool allocated = chunk->references.load(std::memory_order_relaxed) > 0;
      const State state = allocated  ? State::kActiveAllocated
                          : deferred ? State::kActiveAwaitingFree
                                     : State::kInactive;
      const size_t requested = state == State::kInactive ? 0 : chunk->requested;
      s.blocks.push_back({reinterpret_cast<uintptr_t>(chunk->data), chunk->size, requested, state});
      if (allocated) s.allocated_size += chunk->size;
      if (state != State::kInactive) s.active_size += chunk->size;
      s.requested_size += requested;
    }
  }
  for (ThreadCache* cache : caches_) cache->unlock();
}

}  // namespace mydev
