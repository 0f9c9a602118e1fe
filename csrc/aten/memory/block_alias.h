// The CPU storage over a block of device memory (host/alias.h) that the block caches.
//
// A block caches at most one, with a reference of its own, until the device storage on the block is freed. Thread-safe.
#pragma once

#include <c10/core/StorageImpl.h>

#include "runtime/memory/caching_allocator.h"

namespace mydev {

// nullptr if the block has none.
inline c10::StorageImpl* cached_alias(const Block& block) noexcept {
  return static_cast<c10::StorageImpl*>(block.framework_alias.load(std::memory_order_acquire));
}

// Caches `alias` unless the block has one; returns the one that it had.
inline c10::StorageImpl* cache_alias(Block& block, c10::StorageImpl& alias) noexcept {
  void* present = nullptr;
  c10::raw::intrusive_ptr::incref(&alias);
  if (!block.framework_alias.compare_exchange_strong(present, &alias, std::memory_order_acq_rel)) {
    c10::raw::intrusive_ptr::decref(&alias);
  }
  return static_cast<c10::StorageImpl*>(present);
}

inline void release_cached_alias(Block& block) noexcept {
  if (block.framework_alias.load(std::memory_order_relaxed) == nullptr) return;
  if (void* alias = block.framework_alias.exchange(nullptr, std::memory_order_acq_rel)) {
    c10::raw::intrusive_ptr::decref(static_cast<c10::StorageImpl*>(alias));
  }
}

}  // namespace mydev
