#include "host_driver/stream/host_stream.h"

#include <pthread.h>

#include <exception>
#include <new>
#include <utility>

#include "host_driver/host_error.h"

namespace mydev::host_driver {

namespace {

constexpr int kLooks = 256;  // for more work, some tens of microseconds, before the thread sleeps
constexpr int kPauses = 16;  // between looks, each of which takes the line with the count from the one who gives

void pause_briefly() noexcept {
  for (int i = 0; i < kPauses; ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
  }
}

}  // namespace

HostStream::HostStream(HostMemory& memory, bool asynchronous, Faults& faults)
    : memory_(memory),
      asynchronous_(asynchronous),
      direct_(!asynchronous && !memory.guarded() && !faults.armed()),
      copies_directly_(direct_ && !memory.remote()),
      all_faults_(faults),
      faults_(faults) {}

HostStream::~HostStream() {
  wait();
  stop_thread();
}

void HostStream::run(Task&& task) {
  if (!asynchronous_) {
    task();
    return;
  }
  tasks_.give(std::move(task));
  if (!running_.load()) start_thread();
  // Either this sees that the thread sleeps, or the thread, before it does, that there is work.
  if (sleeping_.load()) {
    calls_.fetch_add(1);
    calls_.notify_one();
  }
}

void HostStream::run(Task&& task, const Work& work) {
  if (asynchronous_ && is_recorded(memory_.device())) [[unlikely]] {
    run(profiler().recorded(std::move(task), memory_.device(), reinterpret_cast<mydev_stream>(this), work));
  } else {
    run(std::move(task));
  }
}

void HostStream::start_thread() {
  const std::lock_guard lock(life_);
  if (thread_.joinable()) return;
  stopping_.store(false);
  thread_ = std::thread([this] { work(); });
  running_.store(true);
}

void HostStream::run_and_wait(Task&& task, const Work& work) {
  run(std::move(task), work);
  wait();
}

bool HostStream::idle() {
  return finished_.load(std::memory_order_acquire) == tasks_.given();
}

void HostStream::wait() {
  const uint64_t target = tasks_.given();
  for (uint64_t finished = 0; (finished = finished_.load(std::memory_order_acquire)) < target;) {
    finished_.wait(finished, std::memory_order_acquire);
  }
}

void HostStream::stop_thread() {
  const std::lock_guard lock(life_);  // while it ends, too: one thread takes tasks
  if (!thread_.joinable()) return;
  running_.store(false);
  stopping_.store(true);
  calls_.fetch_add(1);
  calls_.notify_one();
  thread_.join();
}

void HostStream::run_task(Task& task) noexcept {
  Failure failure;
  try {
    task();
    return;
  } catch (const DriverError& error) {
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

// The number of tasks given, once there are more than `taken`; `taken` when the thread is to stop.
uint64_t HostStream::wait_for_work(uint64_t taken) {
  for (int look = 0; look < kLooks; ++look) {
    if (const uint64_t given = tasks_.given(); given != taken) return given;
    if (stopping_.load(std::memory_order_relaxed)) break;
    pause_briefly();
  }
  for (;;) {
    const uint32_t calls = calls_.load();
    sleeping_.store(true);
    // In this order, so that tasks are done that were given before the thread was asked to stop.
    const bool stop = stopping_.load();
    const uint64_t given = tasks_.given();
    if (given == taken && !stop) calls_.wait(calls);
    sleeping_.store(false);
    if (given != taken || stop) return given;
  }
}

void HostStream::work() {
  ::pthread_setname_np(::pthread_self(), kThreadName);
  uint64_t taken = finished_.load();
  for (uint64_t given = 0; (given = wait_for_work(taken)) != taken;) {
    // Does not look at the number given between them, since givers write there.
    while (taken != given) {
      {
        Task task = tasks_.take();
        faults_.delay();
        run_task(task);
      }  // the task releases what it holds before its end is reported
      finished_.store(++taken, std::memory_order_release);
      finished_.notify_all();
    }
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
    stream.run([completion] { completion->done.wait(false, std::memory_order_acquire); }, {MYDEV_ACTIVITY_WAIT});
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
