// Running a record on a frame of host memory as a launch does, without a device: its plan or its scratch first, then
// its entry. What it says of a failure is taken with take_kernel_message.
#pragma once

#include <cstdint>
#include <vector>

#include "mydev/custom_call.h"
#include "runtime/driver/host_services.h"

namespace mydev {

inline mydev_code run_record(const mydev_kernel& kernel, mydev_frame& frame) {
  frame.host = &host_services();
  frame.kernel = &kernel;
  mydev_plan plan{};
  plan.struct_size = sizeof(plan);
  if (kernel.plan != nullptr) {
    if (const mydev_code code = kernel.plan(&frame, &plan); code != MYDEV_OK) return code;
  } else if (kernel.scratch_bytes != nullptr) {
    plan.scratch_bytes = kernel.scratch_bytes(&frame);
  }
  std::vector<char> scratch(plan.scratch_bytes + 64);
  if (plan.scratch_bytes != 0) {
    frame.scratch = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
    frame.scratch_bytes = plan.scratch_bytes;
  }
  frame.decision = plan.decision;
  const mydev_code code = kernel.entry(&frame);
  if (plan.release != nullptr) plan.release(plan.decision);
  return code;
}

}  // namespace mydev
