// Pools that a thread has entered: what it allocates on the device comes from the pool that it entered last.
//
// Of this thread alone: others allocate as before. A stream that was captured before the pool was entered is served
// from the pool; one whose capture began since, from the capture's. What code asks for that runs as work of a stream
// (workspace.h) is never the pool's. Memory that is freed returns to the pool that it came from, whether that is
// entered or not.
#pragma once

#include <memory>

#include "runtime/memory/private_pool.h"

namespace mydev {

// May nest. The pool lives at least until it is left.
void enter_pool(int device, std::shared_ptr<PrivatePool> pool);
// The last time that this thread entered it. Raises FAILED_PRECONDITION if it has not.
void leave_pool(int device, PoolId pool);

// --- for the allocator ---

namespace detail {
extern constinit thread_local int pools_entered;  // by this thread, of all devices
}

inline bool entered_any_pool() noexcept {
  return detail::pools_entered != 0;
}
// What to allocate with for the stream.
Stream& key_of_entered_pool(Stream& stream);

}  // namespace mydev
