// A launch that is decided once and run many times, with operands that may lie elsewhere each time.
//
// Its records are asked as launch_kernel asks them, on a frame whose buffers are those of each run but for their
// addresses. Some records can be asked only by a launch: a driver's record without a plan, a host's record on copies.
// Then the kernel is launched as launch_kernel does it, each time. Only one thread at a time may use it. It outlives
// the launches that an asynchronous stream has not reached yet, which borrow the decision.
#pragma once

#include <cstdint>

#include "mydev/custom_call.h"
#include "runtime/command/decision.h"
#include "runtime/stream/stream.h"

namespace mydev {

class PreparedLaunch {
 public:
  // `kernel` is what resolve_kernel gave for the stream's device. The addresses in `frame` may be any that tell present
  // operands from absent ones. `constants` as in mydev_plan. Throws and raises what launch_kernel does before the
  // launch.
  PreparedLaunch(const mydev_kernel& kernel, mydev_frame& frame, Stream& stream, uint64_t constants = 0);

  // False: each launch asks anew.
  bool is_decided() const noexcept { return record_ != nullptr; }
  // The runtime calls the record, which gives the driver work of its own.
  bool enqueues() const noexcept { return enqueues_; }
  // True if the driver runs the record that takes the frame.
  bool of_driver() const noexcept { return of_driver_; }
  // The scratch that the frame of each run must have; 0 if each launch finds its own.
  uint64_t scratch_bytes() const noexcept { return scratch_bytes_; }
  void run(mydev_frame& frame, Stream& stream) const;

 private:
  const mydev_kernel* kernel_;            // to launch each time anew, if there is no record
  const mydev_kernel* record_ = nullptr;  // that takes the frame
  bool enqueues_ = false;
  bool of_driver_ = false;
  uint64_t scratch_bytes_ = 0;
  Decision decision_;
};

}  // namespace mydev
