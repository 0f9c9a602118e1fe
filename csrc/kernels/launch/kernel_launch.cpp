#include "kernels/launch/kernel_launch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <utility>

#include "kernels/launch/staged_frame.h"
#include "kernels/registry/kernel_choice.h"
#include "kernels/registry/kernel_registry.h"
#include "runtime/base/status.h"
#include "runtime/frame/frame.h"
#include "runtime/frame/kernel_messages.h"
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

// Runs body(), which finds scratch. Whatever goes wrong is the kernel's: its name, owner and operands are told.
// `owner()` says whose kernel it is.
template <typename Body, typename Owner>
void with_scratch_errors(const mydev_kernel& kernel, const mydev_frame& frame, const Owner& owner, const Body& body) {
  mydev_code code = MYDEV_INTERNAL;
  std::string problem;
  {
    const RaiserBypass bypass;
    try {
      body();
      return;
    } catch (const Error& error) {
      code = error.code();
      problem = error.what();
    } catch (const std::exception& error) {
      problem = std::string("scratch_bytes threw: ") + error.what();
    } catch (...) {
      problem = "scratch_bytes threw";
    }
  }
  raise(code, "no scratch memory for " + describe_frame(kernel, frame) + ": " + problem + "\nkernel '" + kernel.name +
                  "' of " + owner());
}

// The record's plan for the frame, or why it declines.
struct Planned {
  std::optional<std::string> refusal;
  uint64_t scratch_bytes = 0;
  Decision decision;
};

Planned make_plan(const KernelCandidate& candidate, mydev_frame& frame, Stream& stream) {
  frame.device = stream.device().index;
  frame.stream = stream.handle();
  frame.host = &host_services();
  frame.kernel = candidate.record;
  mydev_plan plan{};
  plan.struct_size = sizeof(plan);
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
  Planned planned;
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

std::atomic<const StagingCounter*> staging_counter{nullptr};

// Runs a host's record on copies of the operands, now: nothing is left to wait for but the copies of results.
std::optional<std::string> launch_staged(const KernelCandidate& candidate, const mydev_frame& frame, Stream& stream,
                                         uint64_t scratch_bytes, Decision decision) {
  const StagingCounter* counter = staging_counter.load(std::memory_order_acquire);
  if (counter != nullptr) counter->begin(candidate.record->name);
  const auto begin = std::chrono::steady_clock::now();
  StagedFrame staged(frame, stream);
  with_scratch_errors(
      *candidate.record, frame, [&] { return candidate.owner; }, [&] { staged.set_scratch(scratch_bytes); });
  LaunchMode mode{.enqueues = true, .may_decline = false, .of_driver = false, .decision = std::move(decision)};
  std::optional<std::string> refusal = launch_or_decline(*candidate.record, staged.frame(), stream, std::move(mode));
  staged.copy_back(stream);
  if (counter != nullptr) {
    const std::chrono::nanoseconds elapsed = std::chrono::steady_clock::now() - begin;
    counter->end(candidate.record->name, elapsed.count(), staged.bytes_copied());
  }
  return refusal;
}

// Nothing, or why the candidate declined.
std::optional<std::string> try_candidate(const KernelCandidate& candidate, mydev_frame& frame, Stream& stream) {
  if (std::string refusal = declared_refusal(candidate, frame); !refusal.empty()) return refusal;
  Scratch scratch;
  const auto owner = [&] { return candidate.owner; };
  LaunchMode mode{.enqueues = candidate.enqueues,
                  .may_decline = candidate.may_decline,
                  .of_driver = candidate.of_driver,
                  .decision = {}};
  if (candidate.plan != nullptr) {
    Planned planned = make_plan(candidate, frame, stream);
    if (planned.refusal) return std::move(planned.refusal);
    if (candidate.staged) {
      return launch_staged(candidate, frame, stream, planned.scratch_bytes, std::move(planned.decision));
    }
    mode.decision = std::move(planned.decision);
    with_scratch_errors(*candidate.record, frame, owner,
                        [&] { scratch.reserve(planned.scratch_bytes, frame, stream); });
  } else if (candidate.staged) {
    uint64_t bytes = 0;
    if (candidate.scratch_bytes != nullptr) {
      with_scratch_errors(*candidate.record, frame, owner, [&] { bytes = candidate.scratch_bytes(&frame); });
    }
    return launch_staged(candidate, frame, stream, bytes, {});
  } else if (candidate.scratch_bytes != nullptr) {
    with_scratch_errors(*candidate.record, frame, owner,
                        [&] { scratch.reserve(candidate.scratch_bytes(&frame), frame, stream); });
  }
  if (!candidate.enqueues && !candidate.may_decline && !stream.needs_care()) {
    launch(*candidate.record, frame, stream, mode.decision.get());
    return std::nullopt;
  }
  return launch_or_decline(*candidate.record, frame, stream, std::move(mode));
}

}  // namespace

KernelDeclined::KernelDeclined(const char* kernel, std::string reasons)
    : message_(std::string(kernel) + ": " + std::move(reasons)) {}

void set_staging_counter(const StagingCounter& counter) {
  staging_counter.store(&counter, std::memory_order_release);
}

void launch_kernel(const mydev_kernel& kernel, mydev_frame& frame, Stream& stream) {
  const KernelChoice* choice = as_choice(kernel);
  if (choice == nullptr) {
    Scratch scratch;
    if (kernel.scratch_bytes != nullptr) {
      with_scratch_errors(
          kernel, frame, [&] { return origin_text(kernel_origin(kernel.name)); },
          [&] { scratch.reserve(kernel.scratch_bytes(&frame), frame, stream); });
    }
    launch(kernel, frame, stream);
    return;
  }
  std::string reasons;
  for (const KernelCandidate& candidate : choice->candidates) {
    const std::optional<std::string> refusal = try_candidate(candidate, frame, stream);
    if (!refusal) return;
    reasons += (reasons.empty() ? "" : "; ") + candidate.owner + " " + *refusal;
    frame.scratch = nullptr;
    frame.scratch_bytes = 0;
  }
  throw KernelDeclined(kernel.name, std::move(reasons));
}

}  // namespace mydev
