// The extension "profiler": when each command ran, by the device's clock, which OpenCL notes with its event. The events
// of finished commands are kept until the records are fetched. Costs one load while nothing is recorded. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "mydev/driver_extensions.h"
#include "opencl_driver/api/event_handle.h"
#include "opencl_driver/platform/platform.h"

namespace mydev::opencl_driver {

// A piece of work, as profiles show it.
struct Work {
  mydev_activity_kind kind;
  const char* name = nullptr;  // of the kernel
  uint64_t bytes = 0;          // of a copy or a fill
};

class Profiler {
 public:
  bool recording(int32_t device) const noexcept {
    return (recording_.load(std::memory_order_relaxed) >> static_cast<unsigned>(device) & 1) != 0;
  }
  void start(int32_t device) { recording_.fetch_or(uint64_t{1} << static_cast<unsigned>(device)); }
  void stop(int32_t device) { recording_.fetch_and(~(uint64_t{1} << static_cast<unsigned>(device))); }
  // A command was given, by the calling thread.
  void add(const EventHandle& event, int32_t device, mydev_stream stream, const Work& work);
  void flush(int32_t device, void (*sink)(void* context, const mydev_activity* activity), void* context);

 private:
  struct Record {
    EventHandle event;
    mydev_activity activity;
    std::string name;
  };

  std::atomic<uint64_t> recording_{0};  // a bit for each device
  std::mutex mutex_;                    // guards the records
  std::vector<Record> records_;
};

Profiler& profiler();
// The work that this thread gives from now on carries the id.
void set_launch_id(uint64_t id);
// One moment on both clocks.
void read_clocks(const OpenclDevice& device, mydev_clock_pair& out);

}  // namespace mydev::opencl_driver
