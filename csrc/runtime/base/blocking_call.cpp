#include "runtime/base/blocking_call.h"

#include <atomic>

namespace mydev {

namespace {

std::atomic<BlockingCaller> blocking_caller{nullptr};

}  // namespace

void set_blocking_caller(BlockingCaller caller) noexcept {
  blocking_caller.store(caller, std::memory_order_release);
}

void call_blocking(const std::function<void()>& function) {
  if (const BlockingCaller caller = blocking_caller.load(std::memory_order_acquire)) return caller(function);
  function();
}

}  // namespace mydev
