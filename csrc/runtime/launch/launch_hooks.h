// Hooks that see each launch() once it has returned: traces, statistics. They see launches alone, not the copies, fills
// and host kernels that reach the device without one. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/stream/stream.h"

namespace mydev {

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

namespace detail {

struct InstalledHook {
  int id;
  LaunchHook hook;
  void* context;
};
// Replaced as a whole, so that launches call hooks without holding a lock.
using LaunchHooks = std::shared_ptr<const std::vector<InstalledHook>>;

extern std::atomic<bool> instrumented;  // there is a hook
LaunchHooks installed_launch_hooks();

}  // namespace detail
}  // namespace mydev
