// The stream for copies to and from staging memory that work of the device waits for: collectives of drivers without
// host access.
//
// Policy. One for each device, of high priority, and in no pool: a program's streams may wait until such a copy is
// made, so the copy must never be queued behind that wait. For the same reason this stream is never made to wait for
// another. Made at first use, never destroyed. Thread-safe.
#pragma once

#include "runtime/stream/stream.h"

namespace mydev {

Stream& staging_stream(int device);

}  // namespace mydev
