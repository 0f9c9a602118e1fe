// Telling users where the host waits for the device: torch.mydev.set_sync_debug_mode.
//
// Code that is about to wait on a user's behalf reports it here, on devices without asynchronous work too. So a program
// can be cleaned of waits without hardware. Explicit waits for a device or an event are not reported, as in torch.cuda.
// The mode is the process's; off, it costs one predicted branch beside the wait. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/base/api.h"

namespace mydev {

enum class SyncDebugMode : uint8_t { kDefault, kWarn, kError };

namespace detail {
MYDEV_API extern std::atomic<SyncDebugMode> sync_debug_mode;
void tell_of_wait(const char* what);
}  // namespace detail

inline SyncDebugMode sync_debug_mode() noexcept {
  return detail::sync_debug_mode.load(std::memory_order_relaxed);
}
inline void set_sync_debug_mode(SyncDebugMode mode) noexcept {
  detail::sync_debug_mode.store(mode, std::memory_order_relaxed);
}

// `what` waits: an operator, or a copy. Warns or raises as the mode says, with the line of Python.
inline void about_to_wait(const char* what) {
  if (sync_debug_mode() != SyncDebugMode::kDefault) [[unlikely]]
    detail::tell_of_wait(what);
}

}  // namespace mydev
