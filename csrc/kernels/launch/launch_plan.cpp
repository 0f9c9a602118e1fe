#include "kernels/launch/launch_plan.h"

#include <exception>
#include <utility>

#include "runtime/driver/host_services.h"
#include "runtime/frame/kernel_messages.h"

namespace mydev {

namespace {

LaunchPlan ask_plan(const KernelCandidate& candidate, mydev_frame& frame, Stream& stream, uint64_t constants) {
  frame.device = stream.device().index;
  frame.stream = stream.handle();
  frame.host = &host_services();
  frame.kernel = candidate.record;
  mydev_plan plan{};
  plan.struct_size = sizeof(plan);
  plan.constants = constants;
  mydev_code code = MYDEV_INTERNAL;
  std::optional<std::string> message;
  try {
    code = candidate.plan(&frame, &plan);
    if (code != MYDEV_OK) message = take_kernel_message(frame);
  } catch (const std::exception& error) {
    message = std::string("its plan threw: ") + error.what();
  } catch (...) {
    message = "its plan threw";
  }
  LaunchPlan planned;
  if (code == MYDEV_OK) {
    planned.scratch_bytes = plan.scratch_bytes;
    planned.decision = Decision(plan.decision, plan.release);
  } else if (code == MYDEV_UNIMPLEMENTED) {
    planned.refusal = message.value_or("it gave no reason");
  } else {
    raise(code, "no plan for " + describe_frame(*candidate.record, frame) + ": " +
                    message.value_or("the kernel gave no message") + " [" + code_name(code) + "]\nkernel '" +
                    candidate.record->name + "' of " + candidate.owner);
  }
  return planned;
}

}  // namespace

LaunchPlan plan_launch(const KernelCandidate& candidate, mydev_frame& frame, Stream& stream, uint64_t constants) {
  LaunchPlan planned;
  if (std::string refusal = declared_refusal(candidate, frame); !refusal.empty()) {
    planned.refusal = std::move(refusal);
  } else if (candidate.plan != nullptr) {
    return ask_plan(candidate, frame, stream, constants);
  } else if (candidate.scratch_bytes != nullptr) {
    with_scratch_errors(
        *candidate.record, frame, [&] { return candidate.owner; },
        [&] { planned.scratch_bytes = candidate.scratch_bytes(&frame); });
  }
  return planned;
}

std::string refusal_of(const Launchable& kernel, mydev_frame& frame, Stream& stream) {
  std::string reasons;
  for (const KernelCandidate& candidate : kernel.candidates) {
    const std::optional<std::string> refusal = plan_launch(candidate, frame, stream).refusal;
    if (!refusal) return "";
    reasons += (reasons.empty() ? "" : "; ") + candidate.owner + " " + *refusal;
  }
  return reasons;
}

}  // namespace mydev
