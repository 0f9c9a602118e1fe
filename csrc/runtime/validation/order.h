// What is ordered after what: streams, events, waits, calls of the host's, and what the host has seen finished.
//
// Work on a stream is ordered after earlier work of that stream, after what the events stand for that it waits for, and
// after all that the host had seen finished when the work was given: by a wait, or by a query that said so. Whichever
// thread saw it, all threads count as knowing it: how they tell each other is not seen here. That a frame of the
// runtime's was completed tells nobody anything, so that what is found does not depend on how fast the device is.
//
// Where a stream waits for a call of the host's that has not returned (stream_host_call), what the host still learns is
// before the work behind it, and no one knows yet what that will be: such work is not looked at, nor is what waits for
// it. The owner guards all of it.
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
  // Takes in what calls brought that have returned. False while there are others.
  bool settle();
};

struct StreamOrder {
  size_t timeline = 0;
  Point point;  // what the next piece of work is ordered after
};

class Order {
 public:
  StreamOrder add_stream();
  // Its work is finished, and seen to be.
  void remove_stream(StreamOrder& stream);
  // Gives the next piece of work its place, and returns it. `settled`: the work can be looked at.
  uint64_t advance(StreamOrder& stream, bool& settled);
  // The host has seen finished all that is before the point.
  void observe(const Point& point) { host_.join(point.clock); }
  const VectorClock& host() const noexcept { return host_; }
  // The driver has completed what is before the clock: memory may be freed then, and nobody counts as knowing it.
  void complete(const VectorClock& clock) { completed_.join(clock); }
  // What no longer uses memory.
  VectorClock finished() const;

 private:
  VectorClock host_, completed_;
  size_t timelines_ = 0;
  std::vector<size_t> unused_;  // of streams that were destroyed; their epochs go on
};

}  // namespace mydev::validation
