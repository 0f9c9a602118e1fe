// Issues a process group's collectives in order, on a thread of its own, each once the device has reached it.
//
// For asynchronous streams only: whoever calls a collective there must not wait for the stream. The thread is started
// by the first task. Tasks must not throw.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime/stream/event.h"

namespace mydev {

// While open, its thread does what others wait for, be it a group's collectives or a stream's work: the functions of
// users, which may wait for just that, must run elsewhere.
class ServingScope {
 public:
  ServingScope() noexcept : previous_(std::exchange(serving_, true)) {}
  ~ServingScope() { serving_ = previous_; }
  ServingScope(const ServingScope&) = delete;
  ServingScope& operator=(const ServingScope&) = delete;
  static bool is_open() noexcept { return serving_; }

 private:
  bool previous_;
  inline static thread_local bool serving_ = false;
};

class IssueThread {
 public:
  struct Task {
    std::unique_ptr<Event> after;  // recorded on the stream whose work comes first
    std::function<void()> issue;
    std::function<void()> drop;  // instead, after stop_now()
  };

  IssueThread() = default;
  ~IssueThread();  // after the tasks that it has
  IssueThread(const IssueThread&) = delete;
  IssueThread& operator=(const IssueThread&) = delete;

  void post(Task task);
  void drop_all();  // tasks that wait, and later ones, are dropped

 private:
  void work(const std::stop_token& stop);

  std::mutex mutex_;  // guards what follows
  std::condition_variable_any more_;
  std::deque<Task> tasks_;
  bool dropping_ = false;
  std::jthread thread_;
};

}  // namespace mydev
