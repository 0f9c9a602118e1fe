// Reports the actions of the caching allocator to one observer: the layer above keeps a history of them.
//
// Costs each allocation one predicted branch while nobody observes. Events of one address come in their order. The
// observer is called on the thread that allocates or frees, and must not throw; kSegmentAllocated, kSegmentFreed and
// kFreeCompleted come while locks of the allocator are held: the observer may not call the allocator then, nor wait for
// anyone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/base/api.h"
#include "runtime/memory/memory_block.h"

namespace mydev {

enum class MemoryEventKind : uint8_t {
  kAllocating,  // is about to allocate: no address yet
  kAllocated,
  kOutOfMemory,  // after kAllocating, instead of kAllocated; no locks are held
  kFreeRequested,
  kFreeCompleted,  // may be used again; at once, or when other streams are done with it
  kSegmentAllocated,
  kSegmentFreed,
};

struct MemoryEvent {
  MemoryEventKind kind;
  int device;
  int64_t stream;
  const void* address;
  size_t size;  // of blocks: what is reserved for them; of kAllocating and kOutOfMemory: what was asked for
};

using MemoryObserver = void (*)(const MemoryEvent& event);
MYDEV_API void set_memory_observer(MemoryObserver observer) noexcept;  // nullptr: none

namespace detail {
extern std::atomic<MemoryObserver> memory_observer;
inline bool memory_observed() noexcept {
  return memory_observer.load(std::memory_order_relaxed) != nullptr;
}
// Does nothing without an observer.
void tell_of_memory(MemoryEventKind kind, const Stream& stream, const void* address, size_t size) noexcept;
}  // namespace detail

}  // namespace mydev
