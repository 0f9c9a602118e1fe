// The extension "profiler": when each command ran, by the device's clock, which OpenCL notes with its event. The events
// of finished commands are kept until the records are fetched. Costs one load while nothing is recorded. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "driver_support/activities.h"
#include "mydev/driver_extensions.h"
#include "opencl_driver/api/event_handle.h"
#include "opencl_driver/platform/platform.h"

namespace mydev::opencl_driver {

class Profiler {
 public:
  // A command was given, by the calling thread.
  void add(const EventHandle& event, int32_t device, mydev_stream stream, const Work& work);
  void flush(int32_t device, void (*sink)(void* context, const mydev_activity* activity), void* context);

 private:
  struct Record {
    EventHandle event;
    mydev_activity activity;
    std::string name;
  };
  Records<Record> records_;
};

Profiler& profiler();
// One moment on both clocks.
void read_clocks(const OpenclDevice& device, mydev_clock_pair& out);

}  // namespace mydev::opencl_driver
