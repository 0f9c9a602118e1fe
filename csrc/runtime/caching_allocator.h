// Stream-ordered caching allocator over a driver's memory_alloc and memory_free.
//
// Policy. A block belongs to the (device, stream) it was allocated for and is reused on that stream without waiting:
// work on one stream runs in order. Use on another stream is announced by record_stream; the block then rests until
// that stream has passed the point of the free. Small blocks (<= kSmallLimit) are served from per-thread caches of
// fixed size classes; the rest, and refills, from a per-stream pool with best fit, split and merge over large segments
// of driver memory. When the driver is out of memory: finished rests are collected, cached segments are released, and
// the driver is asked again, before RESOURCE_EXHAUSTED is raised with the figures a user needs.
//
// A block is reference-counted, since a host-side alias of a tensor may outlive the tensor. Everything is thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/stream.h"

namespace mydev {

// One allocation. Created by allocate() with one reference.
struct Block {
  void* data;                          // nullptr for 0 bytes
  size_t size;                         // bytes reserved for it, >= requested
  size_t requested;                    // bytes asked for
  Stream* stream;                      // it was allocated on
  std::atomic<int32_t> references;     // see retain, release
  std::atomic<void*> framework_twin;   // slot for the layer above (csrc/aten keeps the host twin storage here)
};

struct AllocatorSettings {
  size_t max_split_size = SIZE_MAX;         // blocks larger than this are neither split nor used for smaller requests
  double garbage_collection_threshold = 0;  // fraction of the limit above which cached segments are released; 0: off
  size_t roundup_power2_divisions = 0;      // 0: off
};

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

// Never nullptr; bytes == 0 gives a block with data == nullptr. Raises RESOURCE_EXHAUSTED. At most 20 ns with the
// matching free when a cached block fits.
Block* allocate(Stream& stream, size_t bytes);
void retain(Block& block) noexcept;
void release(Block& block) noexcept;  // the last one frees it, stream-ordered

// The live block whose memory begins at `data`; nullptr if none. Only for host-accessible devices.
Block* find_block(const void* data) noexcept;
// The device whose memory holds `data`, or -1.
int device_of_pointer(const void* data) noexcept;

void record_stream(Block& block, Stream& stream);
void empty_cache(int device);  // releases every cached segment to the driver; waits for rests
AllocatorStats allocator_stats(int device);
void reset_accumulated_stats(int device);
void reset_peak_stats(int device);
std::vector<SegmentSnapshot> memory_snapshot();

// Fraction (0, 1] of the device's total memory that this process may reserve.
void set_memory_fraction(int device, double fraction);
double memory_fraction(int device);
void set_allocator_settings(const AllocatorSettings& settings);

}  // namespace mydev
