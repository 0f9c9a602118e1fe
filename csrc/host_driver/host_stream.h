// Streams and events of the host driver.
//
// A stream of the inline driver runs each task at once, on the caller's thread. An asynchronous stream runs them in
// order on a thread of its own, started by the first task; the first that throws there is the stream's failure, until
// it is taken. An event is the completion of one recorded task; recording again makes a new completion, so that waits
// for the old one are not disturbed and an event may be destroyed while others wait. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "host_driver/host_memory.h"
#include "mydev/driver.h"

namespace mydev::host_driver {

class HostStream {
 public:
  using Task = std::function<void()>;
  struct Failure {
    mydev_code code = MYDEV_OK;
    std::string message;
  };

  // What `top -H` and debuggers call an asynchronous stream's thread.
  static constexpr const char* kThreadName = MYDEV_HOST_DEVICE_NAME "-stream";

  HostStream(HostMemory& memory, bool asynchronous);
  ~HostStream();  // waits for its work
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  HostMemory& memory() const noexcept { return memory_; }
  bool asynchronous() const noexcept { return asynchronous_; }
  // Work runs at once as it is: there is neither a thread to hand it to nor guarded memory to open.
  bool direct() const noexcept { return direct_; }

  void run(Task task);
  void run_and_wait(Task task);
  bool idle();
  void wait();
  Failure take_failure();  // of a task on the stream's thread
  void stop_thread();      // after the work it has; a later task starts a new one

 private:
  void work(const std::stop_token& stop);
  void run_task(const Task& task) noexcept;

  HostMemory& memory_;
  const bool asynchronous_;
  const bool direct_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable_any more_work_;
  std::condition_variable progress_;
  std::deque<Task> tasks_;
  uint64_t submitted_ = 0;
  uint64_t finished_ = 0;
  Failure failure_;
  std::jthread thread_;
};

class HostEvent {
 public:
  void record(HostStream& stream);
  void make_wait(HostStream& stream) const;
  bool done() const;
  void wait() const;
  void on_done(std::function<void()> function) const;  // calls it when the latest record is done, or now if it is
  bool recorded() const { return latest() != nullptr; }
  std::chrono::steady_clock::time_point time() const { return latest()->time; }  // recorded and done

 private:
  struct Completion {
    std::atomic<bool> done{false};               // written under mutex
    std::chrono::steady_clock::time_point time;  // set before done
    std::mutex mutex;
    std::vector<std::function<void()>> waiting;  // called once done; guarded by mutex

    void finish();
  };
  std::shared_ptr<Completion> latest() const;

  mutable std::mutex mutex_;
  std::shared_ptr<Completion> latest_;
};

}  // namespace mydev::host_driver
