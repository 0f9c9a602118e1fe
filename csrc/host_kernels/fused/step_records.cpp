#include "host_kernels/fused/step_records.h"

#include <map>
#include <optional>

#include "host_kernels/builtin_kernels.h"
#include "runtime/base/instruction_set.h"
#include "runtime/frame/kernel_messages.h"

namespace mydev::kernels {

const mydev_kernel* record_of(std::string_view name) {
  static const auto& records = *new auto([] {
    std::map<std::string_view, const mydev_kernel*> all;
    for (const mydev_kernel* kernel : builtin_kernels(instruction_set())) all.emplace(kernel->name, kernel);
    return all;
  }());
  const auto found = records.find(name);
  return found == records.end() ? nullptr : found->second;
}

mydev_code pass_on(const mydev_frame& step, mydev_code code, const mydev_frame& frame) {
  const std::optional<std::string> message = take_kernel_message(step);
  const std::string text = std::string(step.kernel->name) + ": " + message.value_or("it gave no message");
  frame.host->set_error(&frame, text.c_str());
  return code;
}

}  // namespace mydev::kernels
