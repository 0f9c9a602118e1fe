#include "runtime/command/launch_errors.h"

#include <atomic>
#include <utility>

#include "runtime/base/device_name.h"
#include "runtime/frame/frame.h"
#include "runtime/frame/kernel_messages.h"

namespace mydev {

namespace {

constinit std::atomic<FailureExplainer> installed_explainer{nullptr};

}  // namespace

void set_failure_explainer(FailureExplainer explainer) noexcept {
  installed_explainer.store(explainer, std::memory_order_release);
}

LaunchFailure describe_launch_failure(const mydev_kernel& kernel, const mydev_frame& frame, const Device& device,
                                      mydev_code code, const char* source) {
  std::optional<std::string> given = take_kernel_message(frame);
  std::string message = given ? std::move(*given) : std::string(device.driver->last_error());
  if (message.empty()) {
    message = "the kernel gave no message";
  }
  message += std::string(" [") + code_name(code) + " in " + describe_frame(kernel, frame) + " on device " +
             device_text(device.index) + "]";
  if (*source != '\0') message += std::string(", launched at ") + source;
  const FailureExplainer explainer = installed_explainer.load(std::memory_order_acquire);
  const auto explanation = explainer != nullptr ? explainer(kernel, frame, code) : std::nullopt;
  if (!explanation) {
    return {std::move(message), ErrorOwner::kRuntime};
  }
  return {message + "\n" + *explanation, ErrorOwner::kCustomCall};
}

void raise_launch_error(const mydev_kernel& kernel, const mydev_frame& frame, const Device& device, mydev_code code) {
  const LaunchFailure failure = describe_launch_failure(kernel, frame, device, code, "");
  raise(code, failure.message, failure.owner);
}

}  // namespace mydev
