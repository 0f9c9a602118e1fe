// Figures of the caching allocator, under the names of torch.cuda.memory_stats and memory_snapshot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mydev {

struct Stat {  // current, peak, and totals since the last reset
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;
};
struct PoolStats {
  Stat all, small_pool, large_pool;
};
struct AllocatorStats {
  PoolStats allocation, segment, active, inactive_split;
  PoolStats allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes, requested_bytes;
  int64_t num_alloc_retries = 0, num_ooms = 0, num_sync_all_streams = 0, num_device_alloc = 0, num_device_free = 0;
  Stat oversize_allocations, oversize_segments;
};

struct BlockSnapshot {
  uintptr_t address;
  size_t size, requested;
  enum class State { kActiveAllocated, kActiveAwaitingFree, kInactive } state;
};
struct SegmentSnapshot {
  int device;
  uintptr_t address;
  size_t total_size, allocated_size, active_size, requested_size;
  int64_t stream_id;
  bool is_large;
  std::vector<BlockSnapshot> blocks;
};

// Additive figures of a set of allocations.
struct Tally {
  int64_t count = 0, bytes = 0, requested = 0;
};

// The activity of a thread cache since it was last asked: allocations less frees, the peak of this figure, and all
// allocations.
struct CacheActivity {
  Tally live, peak, allocated;
};

}  // namespace mydev
