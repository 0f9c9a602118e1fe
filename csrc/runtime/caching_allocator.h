// Stream-ordered caching allocator over a driver's memory_alloc and memory_free.
//
// Policy. A block belongs to the (device, stream) it was allocated for and is reused on that stream without waiting:
// work on one stream runs in order. Use on another stream is announced by record_stream; the block then rests until
// that stream has passed the point of the free. Small blocks (<= kSmallLimit) are served from per-thread caches of
// fixed size classes; the rest, and refills, from a per-stream pool with best fit, split and merge over large segments
// of driver memory. When the driver is out of memory: finished rests are collected, cached segments are released, and
// the driver is asked again, before RESOURCE_EXHAUSTED is raised with the figures a user needs.
//
// The thread that frees a block keeps it, in its cache for the block's stream, whichever thread allocated it; caches
// are bounded, and a thread that ends returns what it holds. Statistics of small blocks are gathered per thread and
// added up when read: current values and totals are exact, peaks are exact while one thread allocates and otherwise the
// sum of what the threads saw.
//
// A block is reference-counted, since a host-side alias of a tensor may outlive the tensor. Everything is thread-safe.
// In a forked child that must not use the device, allocating raises FAILED_PRECONDITION and freeing does nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/stream.h"

namespace mydev {

// One allocation. Created by allocate() with one reference.
struct Block {
  void* data;                         // nullptr for 0 bytes
  size_t size;                        // bytes reserved for it, >= requested
  size_t requested;                   // bytes asked for
  Stream* stream;                     // it was allocated on
  std::atomic<int32_t> references;    // see retain, release; 0 while the allocator has it
  int32_t size_class;                 // of the thread caches (runtime/size_classes.h); -1: none
  std::atomic<void*> framework_twin;  // slot for the layer above (csrc/aten keeps the host twin storage here)
};

struct AllocatorSettings {
  size_t medium_segment_size = size_t{20} << 20;     // of a segment for requests above 1 MiB and below 10 MiB
  size_t max_split_size = SIZE_MAX;                  // blocks larger than this are neither split nor used for smaller
                                                     // requests
  size_t max_non_split_rounding = size_t{20} << 20;  // a block that is not split may exceed the request by less
  double garbage_collection_threshold = 0;  // fraction of the limit above which cached segments are released; 0: off
  // Large requests are rounded up to a power of two divided in this many steps (a power of two); 0, 1: off. Entry i is
  // for requests of at least 1 MiB << i, the last one for all that are larger.
  std::array<size_t, 16> roundup_power2_divisions{};
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
// Raises INVALID_ARGUMENT for a max_split_size below medium_segment_size, a medium_segment_size below 10 MiB, or a
// threshold outside [0, 1).
void set_allocator_settings(const AllocatorSettings& settings);
const AllocatorSettings& allocator_settings() noexcept;

// Called on a thread the first time that it allocates; at most one callback, set before other threads run.
void set_thread_cache_created_callback(void (*callback)());

}  // namespace mydev
