// What kernels say of their failures: given by set_error of the host services, taken by whoever sees the code that the
// kernel returns. Only failures come here. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>

#include "mydev/custom_call.h"

namespace mydev {

void give_kernel_message(const mydev_frame* frame, const char* message);
// The message is then no longer kept; nothing if the kernel gave none.
std::optional<std::string> take_kernel_message(const mydev_frame& frame);

namespace detail {
extern std::atomic<size_t> kernel_messages_left;  // given and not taken yet
void erase_kernel_message(const mydev_frame& frame) noexcept;
}  // namespace detail

// After a success: a kernel that gives a message and returns OK all the same leaves it behind. Inline because each
// launch asks.
inline void forget_kernel_message(const mydev_frame& frame) noexcept {
  if (detail::kernel_messages_left.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    detail::erase_kernel_message(frame);
  }
}

}  // namespace mydev
