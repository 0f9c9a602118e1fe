// A stream whose later work is held back, to see what a driver does while work is pending: what returns too early, what
// comes too soon.
//
// By a host call that waits, on an asynchronous device that has them; else, on an asynchronous device, by work that
// takes a while, which is not certain to hold it. An inline device has no pending work. What is held goes on when it is
// released, or after the limit: calls that must wait for the stream may do so.
#pragma once

#include <chrono>
#include <optional>

#include "conform/driver/driver_case.h"

namespace mydev::conform {

class HeldStream {
 public:
  HeldStream(DriverCase& owner, Stream& stream, std::chrono::milliseconds limit = kPatience);
  ~HeldStream();  // releases it
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;

  // Whether its work is held until release() for certain, and not only most often.
  bool certain() const { return gate_ != nullptr; }
  void release();
  // Whether the limit passed before it was released.
  bool expired() const;

  struct Gate;

 private:
  DriverCase& owner_;
  Stream& stream_;
  Gate* gate_ = nullptr;
  std::optional<DeviceMemory> load_;
};

// Ends the case where no stream can be held for certain.
void needs_held_streams(DriverCase& t);

}  // namespace mydev::conform
