// Pools that a thread has entered: memory that it allocates on the device comes from the pool that it entered last.
//
// This holds for this thread alone: others allocate as before. A stream that captured before the pool was entered is
// served from the pool. If the capture began since, the stream is served from the capture's pool. Code that runs as
// work of a stream (workspace.h) is never served from the pool. Memory that is freed returns to the pool that it came
// from, whether that is entered or not.
#pragma once

#include <memory>

#include "runtime/base/api.h"
#include "runtime/memory/private_pool.h"

namespace mydev {

// May nest. The pool lives at least until it is left.
MYDEV_API void enter_pool(int device, std::shared_ptr<PrivatePool> pool);
// Ends the last entry of this thread into the pool. Raises FAILED_PRECONDITION if there is none.
MYDEV_API void leave_pool(int device, PoolId pool);

// --- for the allocator ---

namespace detail {
extern constinit thread_local int pools_entered;  // by this thread, of all devices
}

inline bool entered_any_pool() noexcept {
  return detail::pools_entered != 0;
}
// Returns the stream to allocate with, in place of `stream`.
Stream& key_of_entered_pool(Stream& stream);

}  // namespace mydev
