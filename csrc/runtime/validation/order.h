// The order of work: by streams, events, waits, host calls, and the work that the host has seen finished.
//
// Work on a stream is ordered after earlier work of that stream, and after the work before the events that it waits
// for. It is also ordered after all work that the host had seen finished when it was given: by a wait, or by a query
// that said so. Whichever thread saw it, all threads count as knowing it, since how they tell each other is not seen
// here. The completion of a frame of the runtime orders nothing, so that findings do not depend on how fast the device
// is.
//
// A stream may wait for a host call that has not returned (stream_host_call). All that the host learns until then comes
// before the work behind the call, and is not known yet. So such work is not checked, nor is work that waits for it.
// The owner guards all of it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/validation/vector_clock.h"

namespace mydev::validation {

// A call that a stream, or an event recorded on it, waits for.
struct HostCall {
  bool called = false;
  bool returned = false;
  VectorClock released;  // what the host had seen finished then
};
using HostCalls = std::vector<std::shared_ptr<HostCall>>;

// A point that later work is ordered after.
struct Point {
  VectorClock clock;
  HostCalls calls;  // not returned when last looked at

  void join(const Point& other);
  // Joins the clocks of calls that have returned. False while others have not.
  bool finalize();
};

struct StreamOrder {
  size_t timeline = 0;
  Point point;  // what the next piece of work is ordered after
};

class Order {
 public:
  StreamOrder add_stream();
  // Counts the stream's work as finished and seen by the host.
  void remove_stream(StreamOrder& stream);
  // Gives the next piece of work its place, and returns it. `finalized`: the work can be checked.
  uint64_t advance(StreamOrder& stream, bool& finalized);
  // The host has seen finished all that is before the point.
  void observe(const Point& point) { host_.join(point.clock); }
  const VectorClock& host() const noexcept { return host_; }
  // The driver has completed the work before the clock: its memory may be freed, but nobody counts as knowing it.
  void complete(const VectorClock& clock) { completed_.join(clock); }
  // Returns the clock of the work that no longer uses memory.
  VectorClock finished() const;

 private:
  VectorClock host_, completed_;
  size_t timelines_ = 0;
  std::vector<size_t> unused_;  // of streams that were destroyed; their epochs go on
};

}  // namespace mydev::validation
