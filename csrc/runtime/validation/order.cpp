#include "runtime/validation/order.h"

#include <algorithm>

namespace mydev::validation {

void Point::join(const Point& other) {
  clock.join(other.clock);
  for (const auto& call : other.calls) {
    if (std::find(calls.begin(), calls.end(), call) == calls.end()) calls.push_back(call);
  }
}

bool Point::finalize() {
  std::erase_if(calls, [this](const std::shared_ptr<HostCall>& call) {
    if (call->returned) clock.join(call->released);
    return call->returned;
  });
  return calls.empty();
}

StreamOrder Order::add_stream() {
  StreamOrder stream;
  if (unused_.empty()) {
    stream.timeline = timelines_++;
  } else {
    stream.timeline = unused_.back();
    unused_.pop_back();
    stream.point.clock = host_;  // which covers all that the timeline stood for
  }
  return stream;
}

void Order::remove_stream(StreamOrder& stream) {
  observe(stream.point);
  unused_.push_back(stream.timeline);
}

VectorClock Order::finished() const {
  VectorClock both = host_;
  both.join(completed_);
  return both;
}

uint64_t Order::advance(StreamOrder& stream, bool& finalized) {
  stream.point.clock.join(host_);
  finalized = stream.point.finalize();
  return stream.point.clock.advance(stream.timeline);
}

}  // namespace mydev::validation
