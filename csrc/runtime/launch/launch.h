// launch(): runs one kernel on a stream.
//
// Operators run kernels, the device's own and users', through here. The driver's copies and fills are not launches, nor
// are PyTorch's CPU kernels on aliases of device memory: launch hooks do not see them.
//
// An inline launch without hooks is one predicted branch and the driver's launch. On an asynchronous stream the frame
// is cloned, and the Python line is noted, so that an error can name it. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/base/thread_state.h"
#include "runtime/driver/host_services.h"
#include "runtime/frame/frame.h"
#include "runtime/frame/kernel_messages.h"
#include "runtime/launch/launch_errors.h"
#include "runtime/launch/launch_hooks.h"
#include "runtime/stream/stream.h"

namespace mydev {

// Runs kernel on stream. Fills in frame.device, stream, host, kernel. Scratch must be set by the caller. Raises the
// kernel's error, described with describe_frame, at once (inline) or at a later wait (asynchronous).
inline void launch(const mydev_kernel& kernel, mydev_frame& frame, Stream& stream);

// Launches since the process began; for tests and statistics.
inline uint64_t launch_count() noexcept {
  return detail::total_launches();
}

namespace detail {
void launch_slowly(const mydev_kernel& kernel, mydev_frame& frame, Stream& stream);
}  // namespace detail

inline void launch(const mydev_kernel& kernel, mydev_frame& frame, Stream& stream) {
  detail::ThreadState* thread = detail::thread_state;
  const bool slow = static_cast<bool>(static_cast<int>(stream.needs_care()) |
                                      static_cast<int>(detail::instrumented.load(std::memory_order_relaxed)) |
                                      static_cast<int>(!thread->registered));
  if (slow) [[unlikely]] {
    detail::launch_slowly(kernel, frame, stream);
    return;
  }
  // Only this thread writes its counter, so that no locked instruction is needed.
  thread->launches.store(thread->launches.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const Device& device = stream.device();
  frame.device = device.index;
  frame.stream = stream.handle();
  frame.host = &detail::services;
  frame.launch = nullptr;
  frame.kernel = &kernel;
  if (const mydev_code code = device.driver->launch(stream.handle(), &kernel, &frame); code != MYDEV_OK) [[unlikely]] {
    raise_launch_error(kernel, frame, device, code);
  }
  forget_kernel_message(frame);
}

}  // namespace mydev
