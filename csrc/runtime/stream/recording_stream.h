// The stream that graphs are recorded on (mydev/driver_extensions.h, `graph`): nothing runs on it.
//
// Policy. There is one for each device, in no pool, so that work which other threads give to their streams meanwhile is
// not recorded. The recording thread holds the lock. Made at first use, never destroyed. Thread-safe.
#pragma once

#include <mutex>

#include "runtime/base/api.h"
#include "runtime/stream/stream.h"

namespace mydev {

MYDEV_API Stream& recording_stream(int device);
// Locks the recording streams of all devices.
MYDEV_API std::unique_lock<std::mutex> lock_recording();

}  // namespace mydev
