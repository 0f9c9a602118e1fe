// A stream whose later work is held back, to see what a driver does while work is pending: what returns too early, what
// comes too soon.
//
// By a host call that waits, on an asynchronous device that has them; else, on an asynchronous device, by work that
// takes a while, which is not certain to hold it. An inline device has no pending work. What is held goes on when it is
// released, or after the limit: a driver may wait where the header does not forbid it, in a call for the same stream,
// and for another, since streams need not progress side by side. What was seen after the limit says nothing.
//
// One stream at a time: the driver may have one thread for all host calls.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "conform/driver/calls.h"
#include "conform/driver/driver_case.h"

namespace mydev::conform {

class HeldStream {
 public:
  HeldStream(DriverCase& owner, Stream& stream, std::chrono::milliseconds limit = kPatience);
  ~HeldStream();  // releases it
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;

  void release();
  // Its work is held for certain, and was since it was made: what was seen meanwhile came too early. Not after release.
  bool held() const;

  struct Gate;

 private:
  DriverCase& owner_;
  Stream& stream_;
  Gate* gate_ = nullptr;
  std::optional<DeviceMemory> load_;
};

// Ends the case where no stream can be held for certain.
void needs_held_streams(DriverCase& t);
// The call has not come while the stream is held, though there was time.
void expect_no_call(DriverCase& t, const HeldStream& held, std::string_view what, const Calls& calls);

}  // namespace mydev::conform
