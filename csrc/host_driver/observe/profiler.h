// The host driver's extension "profiler": when each piece of work of an asynchronous stream ran, by the steady clock.
//
// The work of inline streams runs while it is given, so its times need not be reported. Costs one load while nothing is
// recorded. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "host_driver/task.h"
#include "mydev/driver_extensions.h"

namespace mydev::host_driver {

// A piece of work, as profiles show it.
struct Work {
  mydev_activity_kind kind;
  const char* name = nullptr;  // of the kernel
  uint64_t bytes = 0;          // of a copy or a fill
};

class Profiler {
 public:
  bool recording(int32_t device) const noexcept {
    return ((recording_.load(std::memory_order_relaxed) >> static_cast<unsigned>(device)) & 1) != 0;
  }
  void start(int32_t device);
  void stop(int32_t device);  // work that was given before is recorded still
  // The task, which makes its record when it is called. With the launch id of the calling thread.
  Task recorded(Task&& task, int32_t device, mydev_stream stream, const Work& work);
  void flush(int32_t device, void (*sink)(void* context, const mydev_activity* activity), void* context);

 private:
  struct Record {
    mydev_activity activity;
    std::string name;
  };
  void add(Record&& record);

  std::atomic<uint64_t> recording_{0};  // a bit for each device
  std::mutex mutex_;                    // guards the records
  std::vector<Record> records_;
};

Profiler& profiler();
const mydev_profiler_extension& profiler_extension();

}  // namespace mydev::host_driver
