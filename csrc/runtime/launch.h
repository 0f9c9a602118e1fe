// launch(): the one place through which all work on a device goes.
//
// An inline launch without instrumentation is one predicted branch and the driver's launch. On an asynchronous stream
// the frame is cloned, and the Python line is noted, so that an error can name it. Instrumentation (trace, census,
// profiler) hooks in here and nowhere else. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/frame.h"
#include "runtime/stream.h"

namespace mydev {

// Runs kernel on stream. Fills in frame.device, stream, host, kernel. Scratch must be set by the caller. Raises the
// kernel's error, described with describe_frame, at once (inline) or at a later wait (asynchronous).
inline void launch(const mydev_kernel& kernel, mydev_frame& frame, Stream& stream);

// --- instrumentation -------------------------------------------------------------------------------------------------

struct LaunchRecord {
  const mydev_kernel* kernel;
  const mydev_frame* frame;
  const Stream* stream;
  int64_t begin_ns;  // steady clock
  int64_t end_ns;    // after the driver's launch returned: the kernel's end on an inline stream
  mydev_code code;
};
using LaunchHook = void (*)(void* context, const LaunchRecord& record);
// Called after each launch on the launching thread. Returns an id for remove_launch_hook. Not from inside a hook.
int add_launch_hook(LaunchHook hook, void* context);
void remove_launch_hook(int id);

// Counts since the process began; for tests and statistics.
uint64_t launch_count() noexcept;

// Gives "file.py:12 in train" for the calling thread, or "". Set once by the Python layer.
using SourceLocator = std::string (*)();
void set_source_locator(SourceLocator locator) noexcept;
std::string source_location();

// Gives what the layer that has the registry knows of a failed launch of a user's kernel: where the kernel comes from,
// what may help. Nothing for a kernel of our own. Called from any thread; must not throw. Set once.
using FailureExplainer = std::optional<std::string> (*)(const mydev_kernel& kernel, const mydev_frame& frame,
                                                        mydev_code code);
void set_failure_explainer(FailureExplainer explainer) noexcept;

// The services that the runtime gives to drivers and kernels.
const mydev_host_services& host_services() noexcept;
// Puts the process's thread pool behind host_services().parallel_for, which is serial until then.
using ParallelFor = decltype(mydev_host_services::parallel_for);
void set_parallel_for(ParallelFor parallel_for) noexcept;

namespace detail {
extern std::atomic<bool> instrumented;
extern const mydev_host_services services;
void launch_slowly(const mydev_kernel& kernel, mydev_frame& frame, Stream& stream);
[[noreturn]] void raise_launch_error(const mydev_kernel& kernel, const mydev_frame& frame, const Stream& stream,
                                     mydev_code code);
// Messages given by set_error and not taken yet. A kernel that returns OK all the same leaves one behind.
extern std::atomic<size_t> kernel_messages_left;
void forget_kernel_message(const mydev_frame& frame) noexcept;
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
    detail::raise_launch_error(kernel, frame, stream, code);
  }
  if (detail::kernel_messages_left.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    detail::forget_kernel_message(frame);
  }
}

}  // namespace mydev
