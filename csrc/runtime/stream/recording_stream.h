// The stream that graphs are recorded on (mydev/driver_extensions.h, `graph`): nothing runs on it.
//
// Policy. One for each device, in no pool, so that what other threads give to their streams meanwhile is not recorded.
// Who records holds the lock. Made at first use, never destroyed. Thread-safe.
#pragma once

#include <mutex>

#include "runtime/stream/stream.h"

namespace mydev {

Stream& recording_stream(int device);
// Of all devices.
std::unique_lock<std::mutex> lock_recording();

}  // namespace mydev
