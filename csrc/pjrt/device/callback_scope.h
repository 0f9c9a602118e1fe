// Whether the calling thread runs a Python function that a program calls. The device waits for it, so nothing that it
// asks for may wait for the device's order.
#pragma once

#include <optional>

namespace mydev::pjrt {

class CallbackScope {
 public:
  explicit CallbackScope(int device) noexcept;  // the driver's, which waits
  ~CallbackScope();
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

  // The device that waits for this thread; none outside of callbacks.
  static std::optional<int> waiting_device() noexcept;

 private:
  std::optional<int> outer_;
};

}  // namespace mydev::pjrt
