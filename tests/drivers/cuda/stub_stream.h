// Streams of cuda_stub, which are threads with a queue; what their events record; graphs, which are lists of tasks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

using Task = std::function<void()>;

struct StubGraph {
  std::vector<Task> nodes;
};

class StubStream {
 public:
  StubStream() : thread_([this] { work(); }) {}
  ~StubStream() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  StubStream(const StubStream&) = delete;
  StubStream& operator=(const StubStream&) = delete;

  void run(Task task) {
    if (capture != nullptr) return capture->nodes.push_back(std::move(task));
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
      ++given_;
    }
    changed_.notify_all();
  }
  bool done() {
    const std::lock_guard lock(mutex_);
    return finished_ == given_;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this, target = given_] { return finished_ >= target; });
  }

  StubGraph* capture = nullptr;

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
      ++finished_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  uint64_t given_ = 0, finished_ = 0;
  bool ending_ = false;
  std::thread thread_;  // last: it uses all of the above
};

// The record of an event: later records are others.
struct Moment {
  std::mutex mutex;
  std::condition_variable reached;
  bool done = false;
  std::chrono::steady_clock::time_point time;

  void reach() {
    {
      const std::lock_guard lock(mutex);
      done = true;
      time = std::chrono::steady_clock::now();
    }
    reached.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    reached.wait(lock, [this] { return done; });
  }
  bool is_done() {
    const std::lock_guard lock(mutex);
    return done;
  }
};

struct StubEvent {
  bool timed;
  std::shared_ptr<Moment> moment;
  StubGraph* capture = nullptr;
};
