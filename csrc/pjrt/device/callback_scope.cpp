#include "pjrt/device/callback_scope.h"

#include <utility>

namespace mydev::pjrt {

namespace {
thread_local std::optional<int> waiting_for_thread;
}  // namespace

CallbackScope::CallbackScope(int device) noexcept : outer_(std::exchange(waiting_for_thread, device)) {}

CallbackScope::~CallbackScope() {
  waiting_for_thread = outer_;
}

std::optional<int> CallbackScope::waiting_device() noexcept {
  return waiting_for_thread;
}

}  // namespace mydev::pjrt
