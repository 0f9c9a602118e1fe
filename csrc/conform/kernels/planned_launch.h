// Running a record on frames of host memory as launches do, without a device: its plan or its scratch first, then its
// entry. The message of a failure is taken with take_kernel_message.
#pragma once

#include <cstdint>
#include <vector>

#include "mydev/custom_call.h"
#include "runtime/driver/host_services.h"

namespace mydev {

// A record that is asked once and run on frames that differ in their addresses alone.
class PlannedRecord {
 public:
  // `constants` as in mydev_plan.
  PlannedRecord(const mydev_kernel& kernel, mydev_frame& frame, uint64_t constants = 0) : kernel_(kernel) {
    complete(frame);
    plan_.struct_size = sizeof(plan_);
    plan_.constants = constants;
    if (kernel.plan != nullptr) {
      code_ = kernel.plan(&frame, &plan_);
    } else if (kernel.scratch_bytes != nullptr) {
      plan_.scratch_bytes = kernel.scratch_bytes(&frame);
    }
  }
  ~PlannedRecord() {
    if (plan_.release != nullptr) plan_.release(plan_.decision);
  }
  PlannedRecord(const PlannedRecord&) = delete;
  PlannedRecord& operator=(const PlannedRecord&) = delete;

  // Returns the plan's code if the plan failed, else runs the entry and returns its code. Thread-safe, each time with a
  // frame of its own.
  mydev_code run(mydev_frame& frame) const {
    if (code_ != MYDEV_OK) return code_;
    complete(frame);
    std::vector<char> scratch(plan_.scratch_bytes + 64);
    if (plan_.scratch_bytes != 0) {
      frame.scratch = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
      frame.scratch_bytes = plan_.scratch_bytes;
    }
    frame.decision = plan_.decision;
    return kernel_.entry(&frame);
  }

 private:
  void complete(mydev_frame& frame) const {
    frame.host = &host_services();
    frame.kernel = &kernel_;
  }

  const mydev_kernel& kernel_;
  mydev_plan plan_{};
  mydev_code code_ = MYDEV_OK;
};

inline mydev_code run_record(const mydev_kernel& kernel, mydev_frame& frame) {
  return PlannedRecord(kernel, frame).run(frame);
}

}  // namespace mydev
