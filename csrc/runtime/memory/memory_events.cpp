#include "runtime/memory/memory_events.h"

namespace mydev {

void set_memory_observer(MemoryObserver observer) noexcept {
  detail::memory_observer.store(observer, std::memory_order_release);
}

namespace detail {

std::atomic<MemoryObserver> memory_observer{nullptr};

void tell_of_memory(MemoryEventKind kind, const Stream& stream, const void* address, size_t size) noexcept {
  const MemoryObserver observer = memory_observer.load(std::memory_order_acquire);
  if (observer != nullptr) observer({kind, stream.device().index, stream.id(), address, size});
}

}  // namespace detail
}  // namespace mydev
