#include "host_driver/host_stream.h"

#include <pthread.h>

#include <exception>
#include <new>
#include <utility>

#include "host_driver/host_error.h"

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

void HostStream::run_task(const Task& task) noexcept {
  Failure failure;
  try {
    task();
    return;
  } catch (const HostError& error) {
    failure = {error.code(), error.what()};
  } catch (const std::bad_alloc&) {
    failure = {MYDEV_RESOURCE_EXHAUSTED, "out of host memory"};
  } catch (const std::exception& error) {
    failure = {MYDEV_INTERNAL, error.what()};
  }
  const std::lock_guard lock(mutex_);
  if (failure_.code == MYDEV_OK) failure_ = std::move(failure);
}

HostStream::Failure HostStream::take_failure() {
  const std::lock_guard lock(mutex_);
  return std::exchange(failure_, {});
}

void HostStream::work(const std::stop_token& stop) {
  ::pthread_setname_np(::pthread_self(), kThreadName);
  std::unique_lock lock(mutex_);
  while (more_work_.wait(lock, stop, [&] { return !tasks_.empty(); })) {
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    run_task(task);
    lock.lock();
    ++finished_;
    progress_.notify_all();
  }
}

std::shared_ptr<HostEvent::Completion> HostEvent::latest() const {
  const std::lock_guard lock(mutex_);
  return latest_;
}

void HostEvent::Completion::finish() {
  time = std::chrono::steady_clock::now();
  std::vector<std::function<void()>> functions;
  {
    const std::lock_guard lock(mutex);
    done.store(true, std::memory_order_release);
    functions.swap(waiting);
  }
  done.notify_all();
  for (const auto& function : functions) function();
}

void HostEvent::on_done(std::function<void()> function) const {
  if (const auto completion = latest()) {
    const std::lock_guard lock(completion->mutex);
    if (!completion->done.load(std::memory_order_acquire)) {
      completion->waiting.push_back(std::move(function));
      return;
    }
  }
  function();
}

void HostEvent::record(HostStream& stream) {
  auto completion = std::make_shared<Completion>();
  stream.run([completion] { completion->finish(); });
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
