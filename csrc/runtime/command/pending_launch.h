// A launch that an asynchronous driver has: the copy of its frame, and the work to do at its end.
//
// Both lie in one block of a pool. One thread launches and another completes, and a heap would make them wait for each
// other. Thread-safe.
#pragma once

#include "runtime/command/decision.h"
#include "runtime/driver/host_services.h"
#include "runtime/frame/frame.h"
#include "runtime/stream/stream.h"

namespace mydev::detail {

class PendingLaunch final : public LaunchCompletion {
 public:
  // Copies the frame and notes the Python line.
  static PendingLaunch& make(const mydev_kernel& kernel, const mydev_frame& frame, Stream& stream, Decision decision);

  // The frame that the driver is given. If the driver accepts it, it gives it back to complete().
  mydev_frame* frame() const noexcept { return frame_; }
  // A failure sticks to the stream.
  void complete(mydev_frame* frame, mydev_code code) override;
  void release() noexcept;  // the driver refused it

 private:
  PendingLaunch(const mydev_kernel& kernel, Stream& stream, Decision decision, const char* line) noexcept
      : kernel_(kernel), stream_(stream), decision_(std::move(decision)), line_(line) {}

  const mydev_kernel& kernel_;
  Stream& stream_;
  mydev_frame* frame_ = nullptr;
  Decision decision_;
  const char* line_;
  bool pooled_ = true;
};

}  // namespace mydev::detail
