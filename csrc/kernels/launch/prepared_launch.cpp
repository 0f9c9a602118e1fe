#include "kernels/launch/prepared_launch.h"

#include <string>
#include <utility>

#include "kernels/launch/kernel_launch.h"
#include "kernels/launch/launch_plan.h"
#include "kernels/registry/kernel_choice.h"
#include "kernels/registry/kernel_registry.h"
#include "runtime/command/launch.h"

namespace mydev {

PreparedLaunch::PreparedLaunch(const mydev_kernel& kernel, mydev_frame& frame, Stream& stream, uint64_t constants)
    : kernel_(&kernel) {
  const KernelChoice* choice = as_choice(kernel);
  if (choice == nullptr) {
    record_ = &kernel;
    if (kernel.scratch_bytes == nullptr) return;
    with_scratch_errors(
        kernel, frame, [&] { return origin_text(kernel_origin(kernel.name)); },
        [&] { scratch_bytes_ = kernel.scratch_bytes(&frame); });
    return;
  }
  std::string reasons;
  for (const KernelCandidate& candidate : choice->candidates) {
    if (candidate.may_decline || candidate.staged) return;
    LaunchPlan plan = plan_launch(candidate, frame, stream, constants);
    if (plan.refusal) {
      reasons += (reasons.empty() ? "" : "; ") + candidate.owner + " " + *plan.refusal;
      continue;
    }
    record_ = candidate.record;
    enqueues_ = candidate.enqueues;
    of_driver_ = candidate.of_driver;
    scratch_bytes_ = plan.scratch_bytes;
    decision_ = std::move(plan.decision);
    return;
  }
  throw KernelDeclined(kernel.name, std::move(reasons));
}

void PreparedLaunch::run(mydev_frame& frame, Stream& stream) const {
  if (record_ == nullptr) {
    frame.scratch = nullptr;
    frame.scratch_bytes = 0;
    launch_kernel(*kernel_, frame, stream);
  } else if (!enqueues_ && !stream.needs_care()) [[likely]] {
    launch(*record_, frame, stream, decision_.get());
  } else {
    LaunchMode mode{.enqueues = enqueues_,
                    .may_decline = false,
                    .of_driver = of_driver_,
                    .decision = Decision(decision_.get(), nullptr)};
    launch_or_decline(*record_, frame, stream, std::move(mode));
  }
}

}  // namespace mydev
