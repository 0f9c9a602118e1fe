#include "distributed/issue_thread.h"

#include <pthread.h>

namespace mydev {

IssueThread::~IssueThread() {
  thread_.request_stop();
}

void IssueThread::post(Task task) {
  std::unique_lock lock(mutex_);
  if (dropping_) {
    lock.unlock();
    task.drop();
    return;
  }
  tasks_.push_back(std::move(task));
  if (!thread_.joinable()) {
    thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
    pthread_setname_np(thread_.native_handle(), "mydev-issue");
  }
  more_.notify_one();
}

void IssueThread::drop_all() {
  std::deque<Task> dropped;
  {
    const std::lock_guard lock(mutex_);
    dropping_ = true;
    dropped.swap(tasks_);
  }
  for (const Task& task : dropped) task.drop();
}

void IssueThread::work(const std::stop_token& stop) {
  const ServingScope serving;
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      if (!more_.wait(lock, stop, [this] { return !tasks_.empty(); })) return;  // stopped, and nothing left
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task.after->wait_until_done();
    task.issue();
  }
}

}  // namespace mydev
