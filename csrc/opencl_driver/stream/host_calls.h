// The host calls of a stream: a thread that waits for the stream's work, calls functions, and opens gates. It starts at
// the first call, so that a call that waits for another stream holds up nothing but its own stream.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "opencl_driver/api/event_handle.h"

namespace mydev::opencl_driver {

class HostCalls {
 public:
  HostCalls() = default;
  ~HostCalls() { stop(); }
  HostCalls(const HostCalls&) = delete;
  HostCalls& operator=(const HostCalls&) = delete;

  // Calls the function once `before` is done, then completes `gate`, a user event.
  void add(EventHandle before, EventHandle gate, std::function<void()> function);
  // After the calls that it has.
  void stop();

 private:
  struct Call {
    EventHandle before, gate;
    std::function<void()> function;
  };
  void work();

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Call> calls_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace mydev::opencl_driver
