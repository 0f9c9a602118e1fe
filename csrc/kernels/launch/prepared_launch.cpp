#include "kernels/launch/prepared_launch.h"

#include <string>
#include <utility>

#include "kernels/launch/kernel_launch.h"
#include "kernels/launch/launch_plan.h"
#include "kernels/launch/staged_launch.h"
#include "kernels/registry/kernel_registry.h"
#include "kernels/registry/launchable.h"
#include "runtime/command/launch.h"

namespace mydev {

PreparedLaunch::PreparedLaunch(const Launchable& kernel, mydev_frame& frame, Stream& stream, uint64_t constants,
                               std::vector<BufferUse> uses)
    : kernel_(kernel), uses_(std::move(uses)) {
  for (const KernelCandidate& candidate : kernel.candidates) {
    if (candidate.may_decline) return;
    // Constants lie where the host's record cannot read them.
    LaunchPlan plan = plan_launch(candidate, frame, stream, candidate.staged ? 0 : constants);
    if (plan.refusal) {
      declined_ += (declined_.empty() ? "" : "; ") + candidate.owner + " " + *plan.refusal;
      continue;
    }
    candidate_ = &candidate;
    if (candidate.staged && uses_.empty()) uses_ = buffer_uses(*candidate.record, frame);
    scratch_bytes_ = plan.scratch_bytes;
    decision_ = std::move(plan.decision);
    return;
  }
  throw KernelDeclined(kernel.name, std::move(declined_));
}

void PreparedLaunch::run(mydev_frame& frame, Stream& stream) const {
  if (candidate_ == nullptr || (candidate_->staged && stream.capture() != nullptr)) {
    frame.scratch = nullptr;
    frame.scratch_bytes = 0;
    launch_kernel(kernel_, frame, stream);
  } else if (candidate_->staged) {
    launch_staged({*candidate_, uses_, declined_, scratch_bytes_, Decision(decision_.get(), nullptr)}, frame, stream);
  } else if (!candidate_->enqueues && !stream.needs_care()) [[likely]] {
    launch(*candidate_->record, frame, stream, decision_.get());
  } else {
    LaunchMode mode{.enqueues = candidate_->enqueues,
                    .may_decline = false,
                    .of_driver = candidate_->of_driver,
                    .decision = Decision(decision_.get(), nullptr)};
    launch_or_decline(*candidate_->record, frame, stream, std::move(mode));
  }
}

}  // namespace mydev
