// A stream: a queue in order. Work is given and noted under one lock, so that the last event is that of the last
// command.
//
// Failures that come after a call are kept until they are taken: of the last command, and of kernels whose checks fail.
// These write a number into the stream's fault word, which is read when the stream has nothing to do.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "mydev/driver_extensions.h"
#include "opencl_driver/api/event_handle.h"
#include "opencl_driver/observe/profiler.h"
#include "opencl_driver/platform/platform.h"
#include "opencl_driver/stream/host_calls.h"

namespace mydev::opencl_driver {

class OpenclStream {
 public:
  struct Failure {
    mydev_code code = MYDEV_OK;
    std::string message;
  };

  OpenclStream(const Platform& platform, int32_t device);
  ~OpenclStream();  // waits for its work
  OpenclStream(const OpenclStream&) = delete;
  OpenclStream& operator=(const OpenclStream&) = delete;

  int32_t device() const noexcept { return device_; }

  // Gives the queue a command: enqueue(queue, &event). Returns its end, for those who wait for it.
  template <typename Enqueue>
  EventHandle enqueue(const Work& work, const Enqueue& enqueue_command) {
    const std::lock_guard lock(mutex_);
    cl_event event = nullptr;
    enqueue_command(queue_, &event);
    return note(EventHandle(event), work);
  }
  // Does the same for a kernel with a parameter for the fault word: enqueue(queue, &event, word).
  template <typename Enqueue>
  void enqueue_checked(const Work& work, const Enqueue& enqueue_command) {
    const std::lock_guard lock(mutex_);
    cl_event event = nullptr;
    enqueue_command(queue_, &event, fault_word());
    checked_ = true;
    note(EventHandle(event), work);
  }
  EventHandle mark();                       // the end of the work given so far
  void wait_for(const EventHandle& event);  // of this or another stream; may be empty
  void call_host(std::function<void()> function);

  bool idle();
  void finish();
  Failure take_failure();
  void stop_host_calls() { host_calls_.stop(); }

 private:
  EventHandle note(EventHandle event, const Work& work);
  cl_mem fault_word();
  bool take_fault();

  const Platform& platform_;
  const int32_t device_;
  const cl_command_queue queue_;  // NOLINT(misc-misplaced-const): a constant handle
  std::mutex mutex_;              // guards what follows
  EventHandle last_;
  cl_mem fault_word_ = nullptr;
  bool checked_ = false;  // kernels that write the fault word ran since it was read
  HostCalls host_calls_;
};

inline OpenclStream& as_stream(mydev_stream stream) {
  return *reinterpret_cast<OpenclStream*>(stream);
}

// An event of the runtime's: the end of what was recorded last.
class OpenclEvent {
 public:
  void record(OpenclStream& stream) {
    EventHandle end = stream.mark();
    const std::lock_guard lock(mutex_);
    latest_ = std::move(end);
  }
  EventHandle latest() const {  // empty: never recorded
    const std::lock_guard lock(mutex_);
    return latest_;
  }

 private:
  mutable std::mutex mutex_;  // guards what follows
  EventHandle latest_;
};

inline OpenclEvent& as_event(mydev_event event) {
  return *reinterpret_cast<OpenclEvent*>(event);
}

// Raises FAILED_PRECONDITION unless both are recorded and done.
double elapsed_milliseconds(const EventHandle& start, const EventHandle& end);

}  // namespace mydev::opencl_driver
