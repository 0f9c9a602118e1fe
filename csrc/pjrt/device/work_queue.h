// Work in an order: that in which a device is given it, or that of a thread of the plugin.
//
// If nothing else waits, work is submitted on the thread that brings it, which costs a lock and no switch of threads.
// Else the queue's own thread submits it, in order. Submitting is all that happens here: on an asynchronous stream it
// is short, on an inline one it is the work itself. The thread is started at its first need. Work must not throw, and
// may bring more work. Thread-safe. Queues live as long as the process: their threads end with it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

namespace mydev::pjrt {

class WorkQueue {
 public:
  using Work = std::function<void()>;

  explicit WorkQueue(std::string thread_name) : thread_name_(std::move(thread_name)) {}
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Runs it now and returns true; returns false if other work is before it.
  template <typename Function>
  bool run_if_idle(const Function& function) {
    if (!begin()) return false;
    function();
    end();
    return true;
  }
  // Leaves the work to the queue's thread: for work that waits for other devices.
  void enqueue(Work work);
  // Submits the work now, or in its turn.
  void submit(Work work) {
    if (!run_if_idle(work)) enqueue(std::move(work));
  }
  // Runs the work in its turn, and waits for it. Work must not call it.
  void run(const Work& work);
  // Waits until all work brought so far was submitted.
  void drain();

 private:
  bool begin();
  void end();
  void run_all();

  std::string thread_name_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Work> waiting_;
  bool busy_ = false;  // work is being submitted
  bool started_ = false;
};

}  // namespace mydev::pjrt
