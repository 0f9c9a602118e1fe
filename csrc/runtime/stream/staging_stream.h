// The stream for copies to and from staging memory. Work of the device waits for them: collectives of drivers without
// host access.
//
// Policy. There is one for each device, of high priority, and in no pool. A program's streams may wait until such a
// copy is made, so the copy must never be queued behind that wait. For the same reason this stream is never made to
// wait for another. Made at first use, never destroyed. Thread-safe.
#pragma once

#include "runtime/base/api.h"
#include "runtime/stream/stream.h"

namespace mydev {

MYDEV_API Stream& staging_stream(int device);

}  // namespace mydev
