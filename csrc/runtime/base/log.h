// Messages to people from drivers and kernels. Thread-safe; waits for nobody.
#pragma once

#include "mydev/custom_call.h"
#include "runtime/base/api.h"

namespace mydev {

// Takes a message to its reader, or returns false if it cannot (any more). It must neither throw nor wait for a lock
// that is held while a driver is called. Set by the Python layer, before any driver is loaded.
using LogSink = bool (*)(mydev_log_level level, const char* message);
MYDEV_API void set_log_sink(LogSink sink) noexcept;

// Sends the message to the sink. If there is none, or it does not take the message, the message goes to stderr, from
// the level of MYDEV_LOG (by default warning) on. Bytes that are not UTF-8 are replaced.
MYDEV_API void log(mydev_log_level level, const char* message) noexcept;

}  // namespace mydev
