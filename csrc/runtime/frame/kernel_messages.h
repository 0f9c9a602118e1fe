// Messages of kernels about their failures. set_error of the host services gives them; the code that gets the kernel's
// return code takes them. Only failures come here. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>

#include "mydev/custom_call.h"
#include "runtime/base/api.h"

namespace mydev {

void give_kernel_message(const mydev_frame* frame, const char* message);
// Returns the message and no longer keeps it; nothing if the kernel gave none.
MYDEV_API std::optional<std::string> take_kernel_message(const mydev_frame& frame);

namespace detail {
MYDEV_API extern std::atomic<size_t> kernel_messages_left;  // given and not taken yet
MYDEV_API void erase_kernel_message(const mydev_frame& frame) noexcept;
}  // namespace detail

// Called after a success: a kernel that gives a message and returns OK all the same leaves the message behind. Inline,
// because each launch calls it.
inline void forget_kernel_message(const mydev_frame& frame) noexcept {
  if (detail::kernel_messages_left.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    detail::erase_kernel_message(frame);
  }
}

}  // namespace mydev
