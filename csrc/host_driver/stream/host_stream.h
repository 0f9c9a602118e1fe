// Streams and events of the host driver.
//
// A stream of the inline driver runs each task at once, on the caller's thread. An asynchronous stream runs them in
// order on a thread of its own, started by the first task; the first that throws there is the stream's failure, until
// it is taken. The thread looks for more for some microseconds before it sleeps, so that giving it a task is neither a
// system call nor a wait. An event is the completion of one recorded task;
// recording again makes a new completion, so that waits for the old one are not disturbed and an event may be destroyed
// while others wait. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "host_driver/faults.h"
#include "host_driver/memory/host_memory.h"
#include "host_driver/observe/profiler.h"
#include "host_driver/stream/task_queue.h"
#include "mydev/driver.h"

namespace mydev::host_driver {

class HostStream {
 public:
  struct Failure {
    mydev_code code = MYDEV_OK;
    std::string message;
  };

  // The name of an asynchronous stream's thread in `top -H` and in debuggers.
  static constexpr const char* kThreadName = "mydev-stream";

  // `faults` delays the tasks of an asynchronous stream; it must outlive the stream.
  HostStream(HostMemory& memory, bool asynchronous, Faults& faults);
  ~HostStream();  // waits for its work
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  HostMemory& memory() const noexcept { return memory_; }
  Faults& faults() const noexcept { return all_faults_; }
  bool asynchronous() const noexcept { return asynchronous_; }
  // Work runs at once as it is: there is no thread to hand it to, no guarded memory to open, and no fault to inject.
  bool direct() const noexcept { return direct_; }
  // So do copies and fills: nor are there addresses to check.
  bool copies_directly() const noexcept { return copies_directly_; }

  void run(Task&& task);
  void run(Task&& task, const Work& work);  // that profiles show
  void run_and_wait(Task&& task, const Work& work);
  bool idle();
  void wait();
  Failure take_failure();  // of a task on the stream's thread
  void stop_thread();      // after the work it has; a later task starts a new one

 private:
  void start_thread();
  void work();
  uint64_t wait_for_work(uint64_t taken);
  void run_task(Task& task) noexcept;

  HostMemory& memory_;
  const bool asynchronous_;
  const bool direct_;
  const bool copies_directly_;
  Faults& all_faults_;   // the driver's
  FaultyStream faults_;  // of the stream's thread
  TaskQueue tasks_;
  alignas(64) std::atomic<uint64_t> finished_{0};
  alignas(64) std::atomic<uint32_t> calls_{0};  // counts what wakes the thread; apart from what it writes for each task
  std::atomic<bool> sleeping_{false}, stopping_{false};
  std::mutex mutex_;  // guards the failure
  Failure failure_;
  std::mutex life_;  // guards the thread, its start and its end
  std::thread thread_;
  std::atomic<bool> running_{false};  // there is one, and it was not told to stop; read without the mutex
};

// The stream behind a handle of this driver.
inline HostStream& as_stream(mydev_stream stream) {
  return *reinterpret_cast<HostStream*>(stream);
}

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
