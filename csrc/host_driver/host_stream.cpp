#include "host_driver/host_stream.h"

#include <pthread.h>

#include <utility>

namespace mydev::host_driver {

HostStream::HostStream(HostMemory& memory, bool asynchronous)
    : memory_(memory), asynchronous_(asynchronous), direct_(!asynchronous && !memory.guarded()) {}

HostStream::~HostStream() {
  wait();
  stop_thread();
}

void HostStream::run(Task task) {
  if (!asynchronous_) {
    task();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) {
      thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
    }
    tasks_.push_back(std::move(task));
    ++submitted_;
  }
  more_work_.notify_one();
}

void HostStream::run_and_wait(Task task) {
  run(std::move(task));
  wait();
}

bool HostStream::idle() {
  const std::lock_guard lock(mutex_);
  return finished_ == submitted_;
}

void HostStream::wait() {
  std::unique_lock lock(mutex_);
  const uint64_t target = submitted_;
  progress_.wait(lock, [&] { return finished_ >= target; });
}

void HostStream::stop_thread() {
  std::jthread thread;
  {
    const std::lock_guard lock(mutex_);
    thread = std::move(thread_);
  }
  thread.request_stop();  // its destructor joins
}

void HostStream::work(const std::stop_token& stop) {
  ::pthread_setname_np(::pthread_self(), kThreadName);
  std::unique_lock lock(mutex_);
  while (more_work_.wait(lock, stop, [&] { return !tasks_.empty(); })) {
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
    ++finished_;
    progress_.notify_all();
  }
}

std::shared_ptr<HostEvent::Completion> HostEvent::latest() const {
  const std::lock_guard lock(mutex_);
  return latest_;
}

void HostEvent::record(HostStream& stream) {
  auto completion = std::make_shared<Completion>();
  stream.run([completion] {
    completion->time = std::chrono::steady_clock::now();
    completion->done.store(true, std::memory_order_release);
    completion->done.notify_all();
  });
  const std::lock_guard lock(mutex_);
  latest_ = std::move(completion);
}

void HostEvent::make_wait(HostStream& stream) const {
  const auto completion = latest();
  if (completion != nullptr && !completion->done.load(std::memory_order_acquire)) {
    stream.run([completion] { completion->done.wait(false, std::memory_order_acquire); });
  }
}

bool HostEvent::done() const {
  const auto completion = latest();
  return completion == nullptr || completion->done.load(std::memory_order_acquire);
}

void HostEvent::wait() const {
  if (const auto completion = latest()) {
    completion->done.wait(false, std::memory_order_acquire);
  }
}

}  // namespace mydev::host_driver
