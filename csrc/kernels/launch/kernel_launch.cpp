#include "kernels/launch/kernel_launch.h"

#include <algorithm>
#include <optional>
#include <utility>

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

// Whatever goes wrong is the kernel's: its name, owner and operands are told. `bytes()` gives how much, `owner()` whose
// kernel it is.
template <typename Bytes, typename Owner>
void reserve_scratch(Scratch& scratch, const mydev_kernel& kernel, mydev_frame& frame, Stream& stream,
                     const Bytes& bytes, const Owner& owner) {
  mydev_code code = MYDEV_INTERNAL;
  std::string problem;
  {
    const RaiserBypass bypass;
    try {
      scratch.reserve(bytes(), frame, stream);
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
    mode.decision = std::move(planned.decision);
    reserve_scratch(scratch, *candidate.record, frame, stream, [&] { return planned.scratch_bytes; }, owner);
  } else if (candidate.scratch_bytes != nullptr) {
    reserve_scratch(scratch, *candidate.record, frame, stream, [&] { return candidate.scratch_bytes(&frame); }, owner);
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

void launch_kernel(const mydev_kernel& kernel, mydev_frame& frame, Stream& stream) {
  const KernelChoice* choice = as_choice(kernel);
  if (choice == nullptr) {
    Scratch scratch;
    if (kernel.scratch_bytes != nullptr) {
      reserve_scratch(
          scratch, kernel, frame, stream, [&] { return kernel.scratch_bytes(&frame); },
          [&] { return origin_text(kernel_origin(kernel.name)); });
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
