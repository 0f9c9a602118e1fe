// Stream-ordered caching allocator over a driver's memory_alloc and memory_free.
//
// Policy. A block belongs to the (device, stream) it was allocated for and is reused on that stream without waiting:
// work on one stream runs in order. Use on another stream is announced by record_stream; the free is then deferred
// until that stream has passed the point of it. Small blocks (<= kSmallLimit) are served from per-thread caches of
// fixed size classes; the rest, and refills, from a per-stream pool with best fit, split and merge over large segments
// of driver memory. When the driver is out of memory: deferred frees are waited for, cached segments are released, and
// the driver is asked again, before RESOURCE_EXHAUSTED is raised with the figures a user needs.
//
// The thread that frees a block keeps it, in its cache for the block's stream, whichever thread allocated it; caches
// are bounded, and a thread that ends returns what it holds. Statistics of small blocks are gathered per thread and
// added up when read: current values and totals are exact, peaks are exact while one thread allocates and otherwise the
// sum of what the threads saw.
//
// A stream that captures is served from its capture's pool (MemoryPool), and memory that it frees goes back there.
//
// Everything is thread-safe.
// In a forked child that must not use the device, allocating raises FAILED_PRECONDITION and freeing does nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/api.h"
#include "runtime/memory/allocator_settings.h"
#include "runtime/memory/allocator_statistics.h"
#include "runtime/memory/memory_block.h"

namespace mydev {

// Never nullptr; bytes == 0 gives a block with data == nullptr. Raises RESOURCE_EXHAUSTED. At most 20 ns with the
// matching free when a cached block fits.
MYDEV_API Block* allocate(Stream& stream, size_t bytes);
MYDEV_API void retain(Block& block) noexcept;
MYDEV_API void release(Block& block) noexcept;  // the last one frees it, stream-ordered

// The live block whose memory begins at `data`; nullptr if none. Only for host-accessible devices.
MYDEV_API Block* find_block(const void* data) noexcept;
// The live block whose memory holds `data`, wherever it begins; nullptr if none. For any device; takes a lock.
MYDEV_API Block* block_containing(int device, const void* data) noexcept;
// The device whose memory holds `data`, or -1.
MYDEV_API int device_of_pointer(const void* data) noexcept;

MYDEV_API void record_stream(Block& block, Stream& stream);
MYDEV_API void empty_cache(int device);  // releases every cached segment to the driver; waits for deferred frees
MYDEV_API AllocatorStats allocator_stats(int device);
MYDEV_API void reset_accumulated_stats(int device);
MYDEV_API void reset_peak_stats(int device);
MYDEV_API std::vector<SegmentSnapshot> memory_snapshot();

// Free and total bytes of the device as the driver sees them.
MYDEV_API void memory_info(int device, uint64_t& free_bytes, uint64_t& total_bytes);
// Fraction (0, 1] of the device's total memory that this process may reserve.
MYDEV_API void set_memory_fraction(int device, double fraction);
MYDEV_API double memory_fraction(int device);

// Called on a thread the first time that it allocates; at most one callback, set before other threads run.
MYDEV_API void set_thread_cache_created_callback(void (*callback)());

}  // namespace mydev
