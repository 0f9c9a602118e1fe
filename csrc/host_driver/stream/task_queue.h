// The tasks that a stream was given: any thread gives, one thread takes, in order; neither waits for the other.
//
// A list of chunks. Givers take turns (a lock that is held for some instructions); the number of tasks given is what
// tells the taker that there are more. A chunk that was read is used again for the next, so that a stream whose thread
// keeps up allocates nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "host_driver/task.h"

namespace mydev::host_driver {

class TaskQueue {
 public:
  TaskQueue() : writing_(new Chunk), reading_(writing_) {}
  ~TaskQueue() {
    while (reading_ != nullptr) delete std::exchange(reading_, reading_->next.load());
    delete spare_.load();
  }
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  void give(Task&& task) {
    while (giving_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
    if (written_ == kTasks) {
      Chunk* fresh = spare_.exchange(nullptr, std::memory_order_acquire);
      if (fresh == nullptr) fresh = new Chunk;
      writing_->next.store(fresh, std::memory_order_release);
      writing_ = fresh;
      written_ = 0;
    }
    writing_->tasks[written_++] = std::move(task);
    given_.store(++count_);
    giving_.clear(std::memory_order_release);
  }
  uint64_t given() const noexcept { return given_.load(); }

  // Returns the next task. There must be one: given() exceeds the number of tasks taken. Only the taker calls this.
  Task take() {
    if (read_ == kTasks) {
      Chunk* done = std::exchange(reading_, reading_->next.load(std::memory_order_acquire));
      done->next.store(nullptr, std::memory_order_relaxed);
      delete spare_.exchange(done, std::memory_order_acq_rel);
      read_ = 0;
    }
    return std::move(reading_->tasks[read_++]);
  }

 private:
  static constexpr size_t kTasks = 128;
  struct Chunk {
    std::array<Task, kTasks> tasks;
    std::atomic<Chunk*> next{nullptr};
  };

  // The counter that the taker reads while it waits lies apart from the fields that only givers use.
  alignas(64) std::atomic<uint64_t> given_{0};
  alignas(64) std::atomic_flag giving_;  // guards the two below
  Chunk* writing_;
  size_t written_ = 0;
  uint64_t count_ = 0;
  std::atomic<Chunk*> spare_{nullptr};
  alignas(64) Chunk* reading_;  // this and the next: the taker's
  size_t read_ = 0;
};

}  // namespace mydev::host_driver
