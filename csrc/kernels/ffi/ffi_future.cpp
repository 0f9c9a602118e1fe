#include "kernels/ffi/ffi_future.h"

#include <condition_variable>
#include <mutex>
#include <unordered_map>

namespace mydev::ffi {

struct Future {
  bool completed = false;
  bool host_is_through = false;
  std::unique_ptr<Error> error;
  std::shared_ptr<Pending> pending;
  std::condition_variable changed;
};

namespace {

// All futures that the host or the handler still needs. One mutex serves all: futures stand for work that is long.
struct Futures {
  std::mutex mutex;
  std::unordered_map<const Future*, std::shared_ptr<Future>> live;

  static Futures& instance() {
    static Futures& futures = *new Futures;
    return futures;
  }
  std::shared_ptr<Future> find(const Future* future) {
    const auto position = live.find(future);
    return position == live.end() ? nullptr : position->second;
  }
};

std::unique_ptr<Error> make_error(mydev_code code, const char* message) {
  return std::make_unique<Error>(code, message);
}

}  // namespace

Future* create_future() {
  auto future = std::make_shared<Future>();
  Futures& futures = Futures::instance();
  const std::lock_guard lock(futures.mutex);
  return futures.live.emplace(future.get(), future).first->second.get();
}

std::unique_ptr<Error> complete_future(Future* pointer, std::unique_ptr<Error> error) {
  Futures& futures = Futures::instance();
  std::shared_ptr<Pending> pending;  // goes after the lock
  const std::lock_guard lock(futures.mutex);
  const std::shared_ptr<Future> future = futures.find(pointer);
  if (future == nullptr) return make_error(MYDEV_NOT_FOUND, "there is no such future; a future is completed once");
  if (future->completed) return make_error(MYDEV_FAILED_PRECONDITION, "the future has been completed already");
  future->completed = true;
  future->error = std::move(error);
  pending = std::move(future->pending);
  if (future->host_is_through) futures.live.erase(pointer);
  future->changed.notify_all();
  return nullptr;
}

Outcome wait_for_future(Future* pointer, std::chrono::nanoseconds timeout) {
  Futures& futures = Futures::instance();
  std::unique_lock lock(futures.mutex);
  const std::shared_ptr<Future> future = futures.find(pointer);
  if (future == nullptr || future->host_is_through) return {Outcome::kUnknown, nullptr};
  const auto completed = [&] { return future->completed; };
  if (timeout.count() == 0) {
    future->changed.wait(lock, completed);
  } else if (!future->changed.wait_for(lock, timeout, completed)) {
    return {Outcome::kTimedOut, nullptr};
  }
  futures.live.erase(pointer);
  return {Outcome::kDone, std::move(future->error)};
}

void cancel_future(Future* pointer, std::shared_ptr<Pending> pending) {
  Futures& futures = Futures::instance();
  const std::lock_guard lock(futures.mutex);
  const std::shared_ptr<Future> future = futures.find(pointer);
  if (future->completed) {  // just now
    futures.live.erase(pointer);
  } else {
    future->host_is_through = true;
    future->pending = std::move(pending);
  }
}

}  // namespace mydev::ffi
