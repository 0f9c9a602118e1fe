#include "pjrt/device/work_queue.h"

#include <pthread.h>

#include <thread>

namespace mydev::pjrt {

bool WorkQueue::begin() {
  const std::lock_guard lock(mutex_);
  if (busy_ || !waiting_.empty()) return false;
  busy_ = true;
  return true;
}

void WorkQueue::end() {
  const std::lock_guard lock(mutex_);
  busy_ = false;
  if (started_) changed_.notify_all();
}

void WorkQueue::enqueue(Work work) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(work));
  if (!started_) {
    std::thread([this] { run_all(); }).detach();
    started_ = true;
  }
  changed_.notify_all();
}

void WorkQueue::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_ && waiting_.empty(); });
}

void WorkQueue::run(const Work& work) {
  if (run_if_idle(work)) return;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  enqueue([&] {
    work();
    const std::lock_guard lock(mutex);
    done = true;
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return done; });
}

void WorkQueue::run_all() {
  pthread_setname_np(pthread_self(), thread_name_.substr(0, 15).c_str());
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !busy_ && !waiting_.empty(); });
    busy_ = true;
    Work work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what it holds is released before the next turn
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace mydev::pjrt
