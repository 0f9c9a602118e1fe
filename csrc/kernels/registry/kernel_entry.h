// How a kernel of this layer ends: exceptions stop here, their message goes to the runtime.
#pragma once

#include <exception>
#include <memory>
#include <type_traits>

#include "kernels/spec/struct_copy.h"
#include "mydev/custom_call.h"
#include "runtime/base/api.h"
#include "runtime/base/status.h"

namespace mydev::kernels {

// Gives the message to the runtime; returns the code.
MYDEV_API mydev_code fail(const mydev_frame& frame, mydev_code code, const char* message) noexcept;

// Runs body(); a mydev::Error (or any exception) becomes the kernel's code and message.
template <typename Body>
mydev_code run_entry(const mydev_frame& frame, Body&& body) noexcept {
  try {
    body();
    return MYDEV_OK;
  } catch (const Error& error) {
    return fail(frame, error.code(), error.what());
  } catch (const std::exception& error) {
    return fail(frame, MYDEV_INTERNAL, error.what());
  }
}

// The `plan` of a record. It keeps the plan that make(frame), or make(frame, constants), returns until the launch is
// over; that plan has `scratch_bytes`. If make raises UNIMPLEMENTED, the frame is declined; another error is the
// launch's error.
template <typename Plan, auto make>
mydev_code plan_entry(const mydev_frame* frame, mydev_plan* out) noexcept {
  return run_entry(*frame, [&] {
    std::unique_ptr<Plan> plan;
    if constexpr (std::is_invocable_v<decltype(make), const mydev_frame&, uint64_t>) {
      plan = std::make_unique<Plan>(
          make(*frame, out->struct_size >= MYDEV_END_OF(mydev_plan, constants) ? out->constants : 0));
    } else {
      plan = std::make_unique<Plan>(make(*frame));
    }
    out->scratch_bytes = plan->scratch_bytes;
    out->decision = plan.release();
    out->release = [](void* decision) { delete static_cast<Plan*>(decision); };
  });
}
template <typename Plan>
const Plan& planned(const mydev_frame& frame) noexcept {
  return *static_cast<const Plan*>(frame.decision);
}

}  // namespace mydev::kernels
