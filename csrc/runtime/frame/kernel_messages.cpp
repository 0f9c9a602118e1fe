#include "runtime/frame/kernel_messages.h"

#include <mutex>
#include <unordered_map>
#include <utility>

namespace mydev {

namespace {

struct KernelMessages {
  std::mutex mutex;
  std::unordered_map<const mydev_frame*, std::string> by_frame;
};

// Never destroyed: kernels may fail until the process is gone.
KernelMessages& kernel_messages() {
  static KernelMessages& instance = *new KernelMessages;
  return instance;
}

}  // namespace

namespace detail {

std::atomic<size_t> kernel_messages_left{0};

void erase_kernel_message(const mydev_frame& frame) noexcept {
  KernelMessages& messages = kernel_messages();
  const std::lock_guard lock(messages.mutex);
  messages.by_frame.erase(&frame);
  kernel_messages_left.store(messages.by_frame.size(), std::memory_order_relaxed);
}

}  // namespace detail

void give_kernel_message(const mydev_frame* frame, const char* message) {
  KernelMessages& messages = kernel_messages();
  const std::lock_guard lock(messages.mutex);
  messages.by_frame[frame] = message != nullptr ? message : "";
  detail::kernel_messages_left.store(messages.by_frame.size(), std::memory_order_relaxed);
}

std::optional<std::string> take_kernel_message(const mydev_frame& frame) {
  KernelMessages& messages = kernel_messages();
  const std::lock_guard lock(messages.mutex);
  auto node = messages.by_frame.extract(&frame);
  if (node.empty()) {
    return std::nullopt;
  }
  detail::kernel_messages_left.store(messages.by_frame.size(), std::memory_order_relaxed);
  return std::move(node.mapped());
}

}  // namespace mydev
