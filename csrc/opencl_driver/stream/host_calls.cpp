#include "opencl_driver/stream/host_calls.h"

#include <utility>

namespace mydev::opencl_driver {

void HostCalls::add(EventHandle before, EventHandle gate, std::function<void()> function) {
  const std::lock_guard lock(mutex_);
  calls_.push_back({std::move(before), std::move(gate), std::move(function)});
  if (!thread_.joinable()) {
    stopping_ = false;
    thread_ = std::thread([this] { work(); });
  }
  changed_.notify_one();
}

void HostCalls::stop() {
  std::thread ending;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    ending = std::move(thread_);
  }
  changed_.notify_one();
  if (ending.joinable()) ending.join();
}

void HostCalls::work() {
  while (true) {
    Call call;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !calls_.empty(); });
      if (calls_.empty()) return;
      call = std::move(calls_.front());
      calls_.pop_front();
    }
    call.before.wait();
    call.function();
    cl().clSetUserEventStatus(call.gate.get(), CL_COMPLETE);
  }
}

}  // namespace mydev::opencl_driver
