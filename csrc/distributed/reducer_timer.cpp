// When DistributedDataParallel's phases begin and end on the device: what its logging reports as forward, backward and
// communication times. Measured by events on the current stream.
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <array>

#include "runtime/stream/event.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

class ReducerTimer final : public c10d::Timer {
 public:
  explicit ReducerTimer(c10::Device device)
      : device_(device.index()),
        events_{mydev::Event(device_, /*timing=*/true), mydev::Event(device_, true), mydev::Event(device_, true),
                mydev::Event(device_, true), mydev::Event(device_, true)} {}

  void record(Event phase) override {
    Timer::record(phase);
    at(phase).record(current_stream(device_));
  }

  // Nothing for a phase that did not come, as under no_sync, or that came before the other.
  std::optional<int64_t> measureDifference(Event start, Event end) override {
    if (!at(start).recorded() || !at(end).recorded()) return std::nullopt;
    at(start).synchronize();
    at(end).synchronize();
    const double milliseconds = at(start).elapsed(at(end));
    return milliseconds < 0 ? std::nullopt : std::optional(static_cast<int64_t>(milliseconds * 1e6));
  }

 private:
  mydev::Event& at(Event phase) { return events_[static_cast<size_t>(phase)]; }

  int device_;
  std::array<mydev::Event, 5> events_;  // in the order of the phases
};

}  // namespace
}  // namespace mydev

namespace c10d {
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::DeviceType::PrivateUse1, mydev::ReducerTimer);
}  // namespace c10d
