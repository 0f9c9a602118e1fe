// The part that drivers' extensions "profiler" share: which devices are recorded, whose work an activity is, and
// records until they are fetched. The host's clock is CLOCK_MONOTONIC. Costs one load while nothing is recorded.
// Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <vector>

#include "mydev/driver_extensions.h"

namespace mydev::driver_support {

// A piece of work, as profiles show it.
struct Work {
  mydev_activity_kind kind;
  const char* name = nullptr;  // of the kernel
  uint64_t bytes = 0;          // of a copy or a fill
};

inline std::atomic<uint64_t> recorded_devices{0};  // a bit for each
inline bool is_recorded(int32_t device) noexcept {
  return ((recorded_devices.load(std::memory_order_relaxed) >> static_cast<unsigned>(device)) & 1) != 0;
}
inline mydev_code start_recording(int32_t device) {
  recorded_devices.fetch_or(uint64_t{1} << static_cast<unsigned>(device));
  return MYDEV_OK;
}
// Work that was given before is recorded still.
inline mydev_code stop_recording(int32_t device) {
  recorded_devices.fetch_and(~(uint64_t{1} << static_cast<unsigned>(device)));
  return MYDEV_OK;
}

// The id that the work carries which this thread gives from now on.
inline thread_local uint64_t launch_id = 0;
inline void set_launch_id(uint64_t id) {
  launch_id = id;
}
// Work that the calling thread gives, without name and times.
inline mydev_activity activity_of(const Work& work, int32_t device, mydev_stream stream) {
  return {.struct_size = sizeof(mydev_activity),
          .kind = work.kind,
          .device = device,
          .stream = stream,
          .launch_id = launch_id,
          .bytes = work.bytes};
}

inline int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}
// The host's time in the middle of what `body` does.
template <typename Body>
int64_t middle_of(const Body& body) {
  const int64_t before = now_ns();
  body();
  return before + (now_ns() - before) / 2;
}

template <typename Record>
class Records {
 public:
  void add(Record&& record) {
    const std::lock_guard lock(mutex_);
    records_.push_back(std::move(record));
  }
  // Takes out those that the condition holds for, in their order.
  template <typename Condition>
  std::vector<Record> take(const Condition& condition) {
    const std::lock_guard lock(mutex_);
    const auto taken = std::stable_partition(records_.begin(), records_.end(),
                                             [&](const Record& record) { return !condition(record); });
    std::vector<Record> result(std::make_move_iterator(taken), std::make_move_iterator(records_.end()));
    records_.erase(taken, records_.end());
    return result;
  }

 private:
  std::mutex mutex_;
  std::vector<Record> records_;
};

}  // namespace mydev::driver_support
