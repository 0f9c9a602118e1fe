// The times at which commands ran, measured by drivers with the extension "profiler" (mydev/driver_extensions.h).
//
// They exist for asynchronous devices only: work of others runs while it is submitted. A driver that has no such
// extension, or fails at it, measures nothing. There is one measurement at a time, by the owner of MeasuredTimes; any
// thread may call about_to_submit() meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "mydev/driver_extensions.h"
#include "runtime/stream/stream.h"

namespace mydev {

class MeasuredTimes {
 public:
  struct Span {
    int64_t begin_ns, end_ns;  // of the steady clock
  };

  // Counts the work that the calling thread gives to the stream's device from now on as the command `id`; 0: no
  // command. The first command of a device starts the measurement there.
  void about_to_submit(const Stream& stream, uint64_t id);
  // Ends the measurement. Returns the span of each command that has run: from when the device began with the first
  // piece of its work until it was done with the last.
  std::unordered_map<uint64_t, Span> take();

 private:
  struct MeasuredDevice {
    std::atomic<const mydev_profiler_extension*> extension{nullptr};  // while it measures
    std::atomic<bool> asked{false};
    mydev_clock_pair start{};
  };
  void start(int index, const Device& device);

  static constexpr int kMostDevices = 64;  // Device::peers has a bit for each
  std::array<MeasuredDevice, kMostDevices> devices_;
  std::mutex mutex_;  // guards starts and ends
};

}  // namespace mydev
