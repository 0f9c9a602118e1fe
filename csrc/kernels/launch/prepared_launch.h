// A launch that is decided once and run many times, with operands that may lie elsewhere each time.
//
// Its records are asked as launch_kernel asks them, on a frame whose buffers are those of each run but for their
// addresses. A driver's record without a plan can be asked only by a launch.
// Then the kernel is launched as launch_kernel does it, each time. Only one thread at a time may use it. It outlives
// the launches that an asynchronous stream has not reached yet, which borrow the decision.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/launch/staged_launch.h"
#include "kernels/registry/launchable.h"
#include "mydev/custom_call.h"
#include "runtime/base/api.h"
#include "runtime/command/decision.h"
#include "runtime/stream/stream.h"

namespace mydev {

class MYDEV_API PreparedLaunch {
 public:
  // `kernel` is what resolve_kernel or resolve_step gave for the stream's device. The addresses in `frame` may be any
  // that tell present operands from absent ones. `constants` as in mydev_plan. `uses` are those of the buffers, if the
  // frame does not say them all (staged_launch.h). Throws and raises what launch_kernel does before the launch.
  PreparedLaunch(const Launchable& kernel, mydev_frame& frame, Stream& stream, uint64_t constants = 0,
                 std::vector<BufferUse> uses = {});

  // False: each launch asks anew.
  bool is_decided() const noexcept { return candidate_ != nullptr; }
  // A launch is one command that the driver is given, the same in each run: it may be part of a graph of the driver.
  bool is_repeatable() const noexcept {
    return is_decided() && (!candidate_->enqueues || candidate_->portable) && !candidate_->staged;
  }
  // True if the driver runs the record that takes the frame.
  bool of_driver() const noexcept { return is_decided() && candidate_->of_driver; }
  // True if the device's compiler has made the record.
  bool is_portable() const noexcept { return is_decided() && candidate_->portable; }
  // True if the record runs on copies of the operands in the host's memory.
  bool is_staged() const noexcept { return is_decided() && candidate_->staged; }
  // The scratch that the frame of each run must have; 0 if each launch finds its own.
  uint64_t scratch_bytes() const noexcept { return is_staged() ? 0 : scratch_bytes_; }
  void run(mydev_frame& frame, Stream& stream) const;

 private:
  const Launchable& kernel_;
  const KernelCandidate* candidate_ = nullptr;  // that takes the frame; nullptr: the kernel is launched anew each time
  std::vector<BufferUse> uses_;
  std::string declined_;  // why records before it do not take the frame
  uint64_t scratch_bytes_ = 0;
  Decision decision_;
};

}  // namespace mydev
