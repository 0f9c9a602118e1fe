// What private pools have, for those who look inside the allocator. Thread-safe.
#pragma once

#include <cstdint>
#include <map>

#include "runtime/memory/allocator_statistics.h"
#include "runtime/memory/private_pool.h"

namespace mydev {

// Bytes of driver memory by pool. Pools that are gone stay, with the peak and the totals, until these are reset.
std::map<PoolId, PoolStats> reserved_by_pool(int device);
// The pool of each segment that is of one, by the segment's address; also of pools that are gone, whose memory is not.
std::map<uintptr_t, PoolId> segments_of_pools(int device);
// Gives back to the driver what is left of a pool that is gone, on all devices. Nothing for one that is alive.
void empty_cache_of_pool(PoolId pool);

}  // namespace mydev
