// launch(): runs one kernel on a stream, the command of operators (command_hooks.h has the other kinds).
//
// An inline launch without hooks is one predicted branch and the driver's launch. On an asynchronous stream the frame
// is copied, and the Python line is noted, so that an error can name it (pending_launch.h). Both are omitted if the
// driver copies what it needs of its own kernels' frames (MYDEV_CAPABILITY_LAUNCH_COPIES) and reports failures with the
// stream. If a stream captures, the frame goes to the capture. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/api.h"
#include "runtime/base/thread_state.h"
#include "runtime/command/command_hooks.h"
#include "runtime/command/decision.h"
#include "runtime/command/launch_errors.h"
#include "runtime/driver/host_services.h"
#include "runtime/driver/kernel_module.h"
#include "runtime/frame/frame.h"
#include "runtime/frame/kernel_messages.h"
#include "runtime/stream/stream.h"

namespace mydev {

// Runs kernel on stream. Fills in frame.device, stream, host, kernel, decision. Scratch must be set by the caller.
// Raises the kernel's error, described with describe_frame, at once (inline) or at a later wait (asynchronous). A
// decision belongs to the caller, who may give one only on a stream that needs no care.
inline void launch(const mydev_kernel& kernel, mydev_frame& frame, Stream& stream, void* decision = nullptr);

// How to launch a record that asks for more than launch() gives.
struct LaunchMode {
  bool enqueues = false;      // the runtime calls the record's entry, which enqueues (MYDEV_RUNS_HOST_ENQUEUE)
  bool may_decline = false;   // UNIMPLEMENTED before the driver accepted the frame is no error
  bool of_driver = false;     // the driver knows the record: its own, or one that says so
  bool in_host_call = false;  // the stream calls the record's entry on the host, when it comes to it
  Decision decision;
  const CompiledLaunch* compiled = nullptr;  // of a kernel that was compiled at run time; `kernel` is what it shows
};
// Does what launch() does. Returns the reason of a record that declined, and nothing when the launch was accepted.
MYDEV_API std::optional<std::string> launch_or_decline(const mydev_kernel& kernel, mydev_frame& frame, Stream& stream,
                                                       LaunchMode mode);

// Does what launch() does, for a kernel of a module. The frame's buffers are those of the kernel's parameters, with as
// many results as it writes; its attributes are the numbers. Raises INVALID_ARGUMENT if they are not, or if the stream
// is another device's. While the stream captures, the launch goes to the capture, with all that it needs.
MYDEV_API void launch_compiled(const CompiledLaunch& launch, mydev_frame& frame, Stream& stream);

// Gives the driver a launch of a kernel of a module that is a part of another kernel's: called by the entry of a record
// that enqueues. The frame is as for launch_compiled. Hooks see the whole kernel alone. Raises the driver's failure.
MYDEV_API void enqueue_compiled(const CompiledLaunch& launch, mydev_frame& frame, Stream& stream);

// Launches since the process began; for tests and statistics.
inline uint64_t launch_count() noexcept {
  return detail::total_launches();
}

namespace detail {
MYDEV_API void launch_slowly(const mydev_kernel& kernel, mydev_frame& frame, Stream& stream, void* decision);
}  // namespace detail

inline void launch(const mydev_kernel& kernel, mydev_frame& frame, Stream& stream, void* decision) {
  detail::ThreadState* thread = detail::thread_state;
  const bool slow = static_cast<bool>(static_cast<int>(stream.needs_care()) |
                                      static_cast<int>(detail::instrumented.load(std::memory_order_relaxed)) |
                                      static_cast<int>(!thread->registered));
  if (slow) [[unlikely]] {
    detail::launch_slowly(kernel, frame, stream, decision);
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
  frame.decision = decision;
  if (const mydev_code code = device.driver->launch(stream.handle(), &kernel, &frame); code != MYDEV_OK) [[unlikely]] {
    raise_launch_error(kernel, frame, device, code);
  }
  forget_kernel_message(frame);
}

}  // namespace mydev
