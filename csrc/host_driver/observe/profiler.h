// The host driver's extension "profiler": when each piece of work of an asynchronous stream ran, by the steady clock.
//
// The work of inline streams runs while it is given, so its times need not be reported. Costs one load while nothing is
// recorded. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "driver_support/activities.h"
#include "host_driver/host_error.h"
#include "host_driver/task.h"
#include "mydev/driver_extensions.h"

namespace mydev::host_driver {

class Profiler {
 public:
  // The task, which makes its record when it is called. With the launch id of the calling thread.
  Task recorded(Task&& task, int32_t device, mydev_stream stream, const Work& work);
  void flush(int32_t device, void (*sink)(void* context, const mydev_activity* activity), void* context);

 private:
  struct Record {
    mydev_activity activity;
    std::string name;
  };
  Records<Record> records_;
};

Profiler& profiler();
const mydev_profiler_extension& profiler_extension();

}  // namespace mydev::host_driver
