#include "kernels/ffi/ffi_thread_pool.h"

namespace mydev::ffi {

void TaskPool::reset() {
  const std::lock_guard lock(mutex_);
  closed_ = false;
}

void TaskPool::open() {
  const std::lock_guard lock(mutex_);
  open_ = true;
}

void TaskPool::close() {
  {
    const std::lock_guard lock(mutex_);
    open_ = false;
    closed_ = true;
  }
  changed_.notify_all();
}

void TaskPool::run_task(Task task, void* data) noexcept {
  try {
    task(data);
  } catch (...) {
    thrown_.store(true, std::memory_order_relaxed);
  }
}

void TaskPool::schedule(Task task, void* data) {
  if (!offer(task, data)) run_task(task, data);
}

bool TaskPool::offer(Task task, void* data) {
  {
    const std::lock_guard lock(mutex_);
    if (!open_) return false;
    tasks_.emplace_back(task, data);
  }
  changed_.notify_one();
  return true;
}

void TaskPool::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closed_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const auto [task, data] = tasks_.front();
    tasks_.pop_front();
    lock.unlock();
    run_task(task, data);
    lock.lock();
  }
}

}  // namespace mydev::ffi
