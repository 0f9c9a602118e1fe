// The stream on which programs are loaded: data that they need on a device besides their arguments is copied on it.
//
// Policy. There is one for each device, in no pool. So loading waits for no work that the device was given, which may
// itself wait for another device, and takes no error of that work. The loading thread holds the lock, and so takes the
// errors of its own copies. Made at first use, never destroyed. Thread-safe.
#pragma once

#include <mutex>

#include "runtime/base/api.h"
#include "runtime/stream/stream.h"

namespace mydev {

MYDEV_API Stream& loading_stream(int device);
MYDEV_API std::unique_lock<std::mutex> lock_loading(int device);

}  // namespace mydev
