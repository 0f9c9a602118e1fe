// Messages to people from drivers and kernels. Thread-safe; waits for nobody.
#pragma once

#include "mydev/custom_call.h"

namespace mydev {

// Takes a message to its reader, or returns false where it cannot, or no longer. Must not throw nor wait for a lock
// that is held while a driver is called. Set by the Python layer, before any driver is loaded.
using LogSink = bool (*)(mydev_log_level level, const char* message);
void set_log_sink(LogSink sink) noexcept;

// To the sink; where there is none or it does not take the message, to stderr, from the level on that
// MYDEV_LOG says (warnings). What is no UTF-8
// is replaced.
void log(mydev_log_level level, const char* message) noexcept;

}  // namespace mydev
