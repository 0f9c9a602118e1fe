#include "runtime/command/measured_times.h"

#include <algorithm>

#include "runtime/driver/driver_life_cycle.h"

namespace mydev {

namespace {

mydev_clock_pair empty_pair() {
  return {.struct_size = sizeof(mydev_clock_pair)};
}

// The device's clock beside the steady one, which is CLOCK_MONOTONIC: a line through two moments.
class DeviceClock {
 public:
  DeviceClock(const mydev_clock_pair& first, const mydev_clock_pair& second)
      : ticks_(first.device_ticks), nanoseconds_(first.host_nanoseconds) {
    const auto ticks = static_cast<int64_t>(second.device_ticks - first.device_ticks);
    if (ticks > 0) length_ = static_cast<double>(second.host_nanoseconds - first.host_nanoseconds) / ticks;
  }
  int64_t nanoseconds(uint64_t ticks) const {
    return nanoseconds_ + static_cast<int64_t>(static_cast<double>(static_cast<int64_t>(ticks - ticks_)) * length_);
  }

 private:
  uint64_t ticks_;
  int64_t nanoseconds_;
  double length_ = 1;  // of a tick
};

struct Sink {
  DeviceClock clock;
  std::unordered_map<uint64_t, MeasuredTimes::Span>& spans;

  static void take(void* context, const mydev_activity* activity) {
    if (activity->launch_id == 0) return;
    auto& self = *static_cast<Sink*>(context);
    const MeasuredTimes::Span span{self.clock.nanoseconds(activity->begin), self.clock.nanoseconds(activity->end)};
    const auto [place, is_new] = self.spans.try_emplace(activity->launch_id, span);
    if (is_new) return;
    place->second = {std::min(place->second.begin_ns, span.begin_ns), std::max(place->second.end_ns, span.end_ns)};
  }
};

}  // namespace

void MeasuredTimes::start(int index, const Device& device) {
  const std::lock_guard lock(mutex_);
  MeasuredDevice& measured = devices_[static_cast<size_t>(index)];
  if (measured.asked.exchange(true)) return;
  const auto* extension = extension_of<mydev_profiler_extension>(*device.driver, MYDEV_PROFILER_EXTENSION);
  if (extension == nullptr || extension->start(index) != MYDEV_OK) return;
  measured.start = empty_pair();
  if (extension->clock_pair(index, &measured.start) == MYDEV_OK) {
    measured.extension.store(extension, std::memory_order_release);
  } else {
    extension->stop(index);
  }
}

void MeasuredTimes::about_to_submit(const Stream& stream, uint64_t id) {
  if (!stream.asynchronous()) return;
  const int index = stream.device().index;
  MeasuredDevice& measured = devices_[static_cast<size_t>(index)];
  if (!measured.asked.load(std::memory_order_acquire)) start(index, stream.device());
  if (const auto* extension = measured.extension.load(std::memory_order_acquire)) extension->set_launch_id(id);
}

std::unordered_map<uint64_t, MeasuredTimes::Span> MeasuredTimes::take() {
  std::unordered_map<uint64_t, Span> spans;
  const std::lock_guard lock(mutex_);
  for (int index = 0; index < kMostDevices; ++index) {
    MeasuredDevice& measured = devices_[static_cast<size_t>(index)];
    measured.asked.store(false, std::memory_order_release);
    const auto* extension = measured.extension.exchange(nullptr, std::memory_order_acq_rel);
    if (extension == nullptr) continue;
    mydev_clock_pair end = empty_pair();
    const bool timed = extension->clock_pair(index, &end) == MYDEV_OK;
    extension->stop(index);
    if (!timed) end = measured.start;
    Sink sink{DeviceClock(measured.start, end), spans};
    extension->flush(index, Sink::take, &sink);
  }
  return spans;
}

}  // namespace mydev
