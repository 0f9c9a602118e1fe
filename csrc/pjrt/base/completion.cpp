#include "pjrt/base/completion.h"

#include <utility>

namespace mydev::pjrt {

const SharedCompletion& Completion::ready() {
  static const SharedCompletion& completion = *new SharedCompletion(failed({}));  // outlives all threads
  return completion;
}

SharedCompletion Completion::failed(Failure failure) {
  auto completion = std::make_shared<Completion>();
  completion->set(std::move(failure));
  return completion;
}

void Completion::set(Failure failure) {
  std::vector<Continuation> continuations;
  {
    const std::lock_guard lock(mutex_);
    MYDEV_CHECK(!is_ready(), MYDEV_FAILED_PRECONDITION, "the event is ready already; one is set once");
    failure_ = std::move(failure);
    done_.store(true, std::memory_order_release);
    continuations.swap(continuations_);
    reached_.notify_all();
  }
  for (const Continuation& continuation : continuations) continuation(failure_);
}

void Completion::wait() {
  if (is_ready()) return;
  std::unique_lock lock(mutex_);
  reached_.wait(lock, [this] { return is_ready(); });
}

void Completion::on_ready(Continuation continuation) {
  if (!is_ready()) {
    const std::lock_guard lock(mutex_);
    if (!is_ready()) {
      continuations_.push_back(std::move(continuation));
      return;
    }
  }
  continuation(failure_);
}

}  // namespace mydev::pjrt
