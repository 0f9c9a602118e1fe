// A stream whose later work is held back, to see what a driver does while work is pending: which calls return too
// early, which come too soon.
//
// On an asynchronous device with host calls, a host call that waits holds the work back. On an asynchronous device
// without them, work that takes a while does so, but that is not certain to hold it. An inline device has no pending
// work. Held work goes on when it is released, or after the limit. There is a limit because a driver may wait where the
// header does not forbid it, in a call for the same stream, and for another, since streams need not progress side by
// side. Observations after the limit prove nothing.
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
  // Whether the stream's work is held for certain, and has been since this was made: calls seen meanwhile came too
  // early. Do not ask after release.
  bool held() const;

  struct Gate;

 private:
  DriverCase& owner_;
  Stream& stream_;
  Gate* gate_ = nullptr;
  std::optional<DeviceMemory> load_;
};

// Ends the case if no stream can be held for certain.
void needs_held_streams(DriverCase& t);
// Checks that the call has not come while the stream is held, though there was time.
void expect_no_call(DriverCase& t, const HeldStream& held, std::string_view what, const Calls& calls);

}  // namespace mydev::conform
