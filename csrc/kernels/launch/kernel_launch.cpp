#include "kernels/launch/kernel_launch.h"

#include <optional>
#include <utility>

#include "kernels/launch/launch_plan.h"
#include "kernels/launch/staged_launch.h"
#include "kernels/registry/kernel_registry.h"
#include "runtime/base/status.h"
#include "runtime/frame/frame.h"
#include "runtime/memory/caching_allocator.h"

namespace mydev {

namespace {

// Memory that one launch needs, released (stream-ordered) when this goes out of scope.
class Scratch {
 public:
  Scratch() = default;
  ~Scratch() {
    if (block_ != nullptr) release(*block_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void reserve(uint64_t bytes, mydev_frame& frame, Stream& stream) {
    if (bytes == 0) return;
    block_ = allocate(stream, bytes);
    frame.scratch = block_->data;
    frame.scratch_bytes = bytes;
  }

 private:
  Block* block_ = nullptr;
};

// Returns nothing, or why the candidate declined. `declined`: why those before it did.
std::optional<std::string> try_candidate(const KernelCandidate& candidate, const std::string& declined,
                                         mydev_frame& frame, Stream& stream) {
  LaunchPlan plan = plan_launch(candidate, frame, stream);
  if (plan.refusal) return std::move(plan.refusal);
  if (candidate.staged && stream.capture() != nullptr) {
    launch(*candidate.record, frame, stream);
    return std::nullopt;
  }
  if (candidate.staged) {
    const std::vector<BufferUse> uses = buffer_uses(*candidate.record, frame);
    launch_staged({candidate, uses, declined, plan.scratch_bytes, std::move(plan.decision)}, frame, stream);
    return std::nullopt;
  }
  Scratch scratch;
  with_scratch_errors(
      *candidate.record, frame, [&] { return candidate.owner; },
      [&] { scratch.reserve(plan.scratch_bytes, frame, stream); });
  if (!candidate.enqueues && !candidate.may_decline && !stream.needs_care()) {
    launch(*candidate.record, frame, stream, plan.decision.get());
    return std::nullopt;
  }
  LaunchMode mode{.enqueues = candidate.enqueues,
                  .may_decline = candidate.may_decline,
                  .of_driver = candidate.of_driver,
                  .decision = std::move(plan.decision)};
  return launch_or_decline(*candidate.record, frame, stream, std::move(mode));
}

}  // namespace

KernelDeclined::KernelDeclined(const char* kernel, std::string reasons)
    : message_(std::string(kernel) + ": " + std::move(reasons)) {}

void launch_kernel(const Launchable& kernel, mydev_frame& frame, Stream& stream) {
  if (kernel.plain != nullptr) {
    const mydev_kernel& record = *kernel.plain;
    Scratch scratch;
    if (record.scratch_bytes != nullptr) {
      with_scratch_errors(
          record, frame, [&] { return kernel.candidates.front().owner; },
          [&] { scratch.reserve(record.scratch_bytes(&frame), frame, stream); });
    }
    launch(record, frame, stream);
    return;
  }
  std::string reasons;
  for (const KernelCandidate& candidate : kernel.candidates) {
    const std::optional<std::string> refusal = try_candidate(candidate, reasons, frame, stream);
    if (!refusal) return;
    reasons += (reasons.empty() ? "" : "; ") + candidate.owner + " " + *refusal;
    frame.scratch = nullptr;
    frame.scratch_bytes = 0;
  }
  if (stream.capture() != nullptr) {
    const Launchable* step = resolve_step(stream.device(), kernel.name);
    if (step != nullptr && step != &kernel) return launch_kernel(*step, frame, stream);
  }
  throw KernelDeclined(kernel.name, std::move(reasons));
}

}  // namespace mydev
