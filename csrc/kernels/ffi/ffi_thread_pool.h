// Tasks of a handler on the process's thread pool.
//
// The thread pool runs parallel regions, not tasks. So a call whose kernel is known to schedule tasks runs in a region:
// the calling thread runs the handler, the others run the tasks that it schedules. If there are no other threads, or at
// the first call of a kernel, tasks run at once on the thread that schedules them. A task must not wait for another.
// Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "kernels/ffi/ffi_abi.h"
#include "runtime/base/parallel.h"

namespace mydev::ffi {

class TaskPool {
 public:
  // Runs body() on this thread; returns when it and all tasks are done. body must not throw.
  template <typename Body>
  void run(const Body& body) {
    reset();
    const int64_t threads = parallel_threads();
    parallel_for(threads, 1, [&](int64_t begin, int64_t end) {
      if (begin == 0) {
        if (end < threads) open();
        body();
        close();
      }
      work();
    });
  }
  // Runs the task now, or lets another thread do so. An exception that a task throws ends there and is noted.
  void schedule(Task task, void* data);
  // Whether a task has thrown since the last time.
  bool take_thrown() noexcept {
    return thrown_.load(std::memory_order_relaxed) && thrown_.exchange(false, std::memory_order_relaxed);
  }

 private:
  bool offer(Task task, void* data);  // false: there is nobody to run it
  void run_task(Task task, void* data) noexcept;
  void reset();
  void open();
  void close();
  void work();  // until closed and empty

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<Task, void*>> tasks_;
  bool open_ = false;
  bool closed_ = false;
  std::atomic<bool> thrown_{false};
};

}  // namespace mydev::ffi
