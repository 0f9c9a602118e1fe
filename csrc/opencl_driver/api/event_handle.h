// An OpenCL event, which stands for the end of a command: shared by counting, and empty by default.
#pragma once

#include <utility>

#include "opencl_driver/api/errors.h"
#include "opencl_driver/api/opencl_api.h"

namespace mydev::opencl_driver {

class EventHandle {
 public:
  EventHandle() = default;
  explicit EventHandle(cl_event owned) : event_(owned) {}
  EventHandle(const EventHandle& other) : event_(other.event_) {
    if (event_ != nullptr) cl().clRetainEvent(event_);
  }
  EventHandle(EventHandle&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  EventHandle& operator=(EventHandle other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~EventHandle() {
    if (event_ != nullptr) cl().clReleaseEvent(event_);
  }

  explicit operator bool() const noexcept { return event_ != nullptr; }
  cl_event get() const noexcept { return event_; }

  // CL_COMPLETE when the command is done, below it when it failed, above it before.
  cl_int status() const {
    cl_int status = CL_COMPLETE;
    check_cl(cl().clGetEventInfo(event_, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, nullptr),
             "clGetEventInfo");
    return status;
  }
  bool done() const { return status() <= CL_COMPLETE; }
  // Waits until it is done. Failures are the stream's to tell.
  void wait() const { cl().clWaitForEvents(1, &event_); }
  // Nanoseconds of the device's clock: CL_PROFILING_COMMAND_START or _END of a command that is done.
  cl_ulong time(cl_uint what) const {
    cl_ulong time = 0;
    check_cl(cl().clGetEventProfilingInfo(event_, what, sizeof(time), &time, nullptr), "clGetEventProfilingInfo");
    return time;
  }

 private:
  cl_event event_ = nullptr;
};

}  // namespace mydev::opencl_driver
