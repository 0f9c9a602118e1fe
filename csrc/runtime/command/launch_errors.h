// The message for a launch that failed: the kernel's message or the driver's, the kernel with its operands, the device,
// the line that launched it, and what a layer above can explain. Thread-safe.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/api.h"
#include "runtime/base/status.h"
#include "runtime/driver/device.h"

namespace mydev {

// Explains a failed launch of a user's kernel, from the layer that has the registry: where the kernel comes from, and
// what may help. Returns nothing for a kernel of our own. Called from any thread; must not throw. Set at any time:
// failures before that are reported without.
using FailureExplainer = std::optional<std::string> (*)(const mydev_kernel& kernel, const mydev_frame& frame,
                                                        mydev_code code);
MYDEV_API void set_failure_explainer(FailureExplainer explainer) noexcept;

struct LaunchFailure {
  std::string message;
  ErrorOwner owner;
};

// Takes the kernel's message. `source` comes from source_location(); it is "" for a launch that is still under way.
LaunchFailure describe_launch_failure(const mydev_kernel& kernel, const mydev_frame& frame, const Device& device,
                                      mydev_code code, const char* source);
[[noreturn]] MYDEV_API void raise_launch_error(const mydev_kernel& kernel, const mydev_frame& frame,
                                               const Device& device, mydev_code code);

}  // namespace mydev
