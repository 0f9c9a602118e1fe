// One record's plan for a frame, made before the launch: whether it takes the frame, its scratch, its decision.
// Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/registry/launchable.h"
#include "mydev/custom_call.h"
#include "runtime/base/api.h"
#include "runtime/base/status.h"
#include "runtime/command/decision.h"
#include "runtime/frame/frame.h"
#include "runtime/stream/stream.h"

namespace mydev {

// A record's plan for a frame, or why it declines.
struct LaunchPlan {
  std::optional<std::string> refusal;
  uint64_t scratch_bytes = 0;
  Decision decision;
};

// Asks the candidate: its limits, then its plan, which is given `constants` (mydev_plan), or its scratch_bytes. Raises
// their errors with the kernel's name and operands.
LaunchPlan plan_launch(const KernelCandidate& candidate, mydev_frame& frame, Stream& stream, uint64_t constants = 0);

// Why each record declines the frame, before there is memory: its buffers have pretended addresses. Empty if one takes
// it. A record that can only decline at its launch takes what its limits allow. Raises the error of a plan.
MYDEV_API std::string refusal_of(const Launchable& kernel, mydev_frame& frame, Stream& stream);

// Runs body(), which finds scratch. Any error is the kernel's: its name, owner and operands are reported. `owner()`
// says whose kernel it is.
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

}  // namespace mydev
