// Device memory that handlers ask for while they run.
//
// It comes from the caching allocator, but from a pool of its own for each of the driver's streams: an asynchronous
// stream's work runs later than it was given, so what the stream's own pool has free now may still be in use by work
// that is ahead of ours. Nothing here waits for a stream, since ours may be the one. Thread-safe.
#pragma once

#include "runtime/memory/caching_allocator.h"

namespace mydev::ffi {

// Raises RESOURCE_EXHAUSTED. Given back with release().
Block* allocate_while_running(int device, mydev_stream stream, size_t bytes);
// Keeps the block that has this address, if one does, until it is released; else nullptr.
Block* retain_block_with(int device, const void* address) noexcept;

}  // namespace mydev::ffi
