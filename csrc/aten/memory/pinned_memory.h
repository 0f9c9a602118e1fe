// Page-locked host memory: core's caching host allocator over the driver's host_alloc and host_free. Thread-safe.
#pragma once

#include <c10/core/Allocator.h>

namespace mydev {

c10::Allocator* pinned_memory_allocator();

// True if `data` lies in memory from the allocator above, or in other memory that the driver knows as page-locked.
bool is_pinned_pointer(const void* data);

}  // namespace mydev
