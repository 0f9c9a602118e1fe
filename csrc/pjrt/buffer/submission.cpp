#include "pjrt/buffer/submission.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime/base/device_name.h"

namespace mydev::pjrt {

namespace {

// A thread that calls functions in order. It is started at its first need, and lives as long as the process.
class CallingThread {
 public:
  explicit CallingThread(const char* name) : name_(name) {}

  void post(std::function<void()> function) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(function));
    if (!started_) {
      std::thread([this] { run(); }).detach();
      started_ = true;
    }
    changed_.notify_all();
  }

  void drain() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !busy_ && waiting_.empty(); });
  }

 private:
  void run() {
    pthread_setname_np(pthread_self(), name_);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !waiting_.empty(); });
      std::function<void()> function = std::move(waiting_.front());
      waiting_.pop_front();
      busy_ = true;
      lock.unlock();
      function();
      function = nullptr;
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  const char* name_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool busy_ = false;
  bool started_ = false;
};

// Where continuations are called.
CallingThread& completion_thread() {
  static CallingThread& thread = *new CallingThread(MYDEV_DEVICE_NAME "-pjrt-end");
  return thread;
}
// Where drivers are asked how work ended.
CallingThread& status_thread() {
  static CallingThread& thread = *new CallingThread(MYDEV_DEVICE_NAME "-pjrt-sts");
  return thread;
}

// Where programs are let go.
CallingThread& dropping_thread() {
  static CallingThread& thread = *new CallingThread(MYDEV_DEVICE_NAME "-pjrt-del");
  return thread;
}

Failure failure_of_inputs(const Submission& submission) {
  for (const SharedCompletion& input : submission.inputs) {
    if (input->has_failed()) return input->failure();
  }
  return {};
}

void finish(Submission& submission, Failure failure) {
  if (!failure.failed()) failure = failure_of_inputs(submission);
  if (!failure.failed() && submission.after) failure = failure_of(submission.after);
  if (failure.failed() && submission.abandon) submission.abandon(failure);
  submission.storages.clear();
  if (submission.completion != nullptr) {
    submission.completion->set(std::move(failure));
  } else if (failure.failed()) {
    submission.completion = Completion::failed(std::move(failure));
  } else {
    submission.completion = Completion::ready();
  }
}

// On a thread of the driver's, in the order of the stream: work behind this waits, so that what failed is this
// submission and none after it. A driver that tells failures with the stream's status is asked on another thread, since
// here it must not be called.
void take_end(Stream& stream, const std::shared_ptr<Submission>& submission) {
  Failure failure;
  if (stream.device().driver->stream_status == nullptr) {
    failure = failure_of([&stream] { stream.raise_error_if_any(); });
  } else {
    auto asked = std::make_shared<Completion>();  // whose other side may be in set() when this one goes on
    status_thread().post([&failure, &stream, asked] {
      failure = failure_of([&stream] {
        stream.collect_status();
        stream.raise_error_if_any();
      });
      asked->set();
    });
    asked->wait();
  }
  completion_thread().post([submission, failure = std::move(failure)] { finish(*submission, failure); });
}

// In the device's turn. Gives the completion, which may be still to come.
SharedCompletion submit_now(LocalDevice& device, Submission submission) {
  Stream& stream = device.stream;
  Failure failure = failure_of_inputs(submission);
  if (!failure.failed()) failure = failure_of([&] { submission.submit(stream); });
  if (failure.failed() || !stream.asynchronous()) {
    finish(submission, std::move(failure));
    return submission.completion;
  }
  if (submission.completion == nullptr) submission.completion = std::make_shared<Completion>();
  SharedCompletion completion = submission.completion;
  submission.submit = nullptr;  // what it holds is needed no more
  std::erase_if(submission.storages, [](const SharedStorage& storage) { return storage->stream_ordered(); });
  auto shared = std::make_shared<Submission>(std::move(submission));
  failure = failure_of([&] { stream.host_call([&stream, shared] { take_end(stream, shared); }, shared->name, ""); });
  if (failure.failed()) finish(*shared, std::move(failure));
  return completion;
}

}  // namespace

void let_go(std::shared_ptr<void> thing) {
  dropping_thread().post([thing = std::move(thing)] {});  // functions are destroyed there too
}

void wait_for_what_is_let_go() noexcept {
  dropping_thread().drain();
}

void wait_for_completions() noexcept {
  completion_thread().drain();
}

SharedCompletion submit(LocalDevice& device, Submission submission) {
  SharedCompletion completion;
  if (device.queue.run_if_idle([&] { completion = submit_now(device, std::move(submission)); })) return completion;
  return submit_on_thread(device, std::move(submission));
}

SharedCompletion submit_on_thread(LocalDevice& device, Submission submission) {
  if (submission.completion == nullptr) submission.completion = std::make_shared<Completion>();
  SharedCompletion completion = submission.completion;
  auto shared = std::make_shared<Submission>(std::move(submission));
  device.queue.enqueue([&device, shared] { submit_now(device, std::move(*shared)); });
  return completion;
}

SharedCompletion submit_after(LocalDevice& device, const SharedCompletion& before, Submission submission) {
  submission.submit = [before, submit = std::move(submission.submit)](Stream& stream) {
    before->wait();
    if (before->has_failed()) raise(before->failure().code, before->failure().message);
    submit(stream);
  };
  return submit_on_thread(device, std::move(submission));
}

}  // namespace mydev::pjrt
