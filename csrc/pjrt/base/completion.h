// The end of asynchronous work: not there yet, reached, or failed. Events of the C API are made of completions.
//
// A completion is set once, by the thread that does the work, and read by any number of threads. Thread-safe. A
// continuation is called exactly once. If the end is there already, on_ready() calls it on its own thread; else the
// thread that sets the completion does, which then holds no lock of this library. A continuation may call the plugin,
// but must not wait for the plugin's work.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "pjrt/base/error.h"
#include "pjrt/c_api/base.h"

namespace mydev::pjrt {

class Completion;
using SharedCompletion = std::shared_ptr<Completion>;

class Completion {
 public:
  using Continuation = std::function<void(const Failure& failure)>;

  // Returns a completion that was reached without an error. All work that is done when it is submitted shares it.
  static const SharedCompletion& ready();
  static SharedCompletion failed(Failure failure);

  Completion() = default;
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  bool is_ready() const noexcept { return done_.load(std::memory_order_acquire); }
  // Only once it is ready.
  const Failure& failure() const noexcept { return failure_; }
  bool has_failed() const noexcept { return is_ready() && failure_.failed(); }
  // Raises FAILED_PRECONDITION if it was set before.
  void set(Failure failure = {});
  void wait();
  void on_ready(Continuation continuation);

 private:
  std::atomic<bool> done_{false};  // release: publishes failure_
  Failure failure_;
  std::mutex mutex_;  // guards what follows, and setting
  std::condition_variable reached_;
  std::vector<Continuation> continuations_;
};

}  // namespace mydev::pjrt

struct PJRT_Event {
  mydev::pjrt::SharedCompletion completion;
};
