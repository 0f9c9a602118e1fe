// Figures of the memory of private pools, for code that looks inside the allocator. Thread-safe.
#pragma once

#include <cstdint>
#include <map>

#include "runtime/base/api.h"
#include "runtime/memory/allocator_statistics.h"
#include "runtime/memory/private_pool.h"

namespace mydev {

// Bytes of driver memory by pool. Pools that are gone stay, with the peak and the totals, until these are reset.
MYDEV_API std::map<PoolId, PoolStats> reserved_by_pool(int device);
// The pool of each segment that belongs to one, by the segment's address. This includes pools that are gone but whose
// memory is not.
MYDEV_API std::map<uintptr_t, PoolId> segments_of_pools(int device);
// Gives the memory left of a pool that is gone back to the driver, on all devices. Does nothing for a live pool.
MYDEV_API void empty_cache_of_pool(PoolId pool);

}  // namespace mydev
