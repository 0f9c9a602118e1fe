// Host memory from host_alloc, or registered: copies from and to it need not wait. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <shared_mutex>

#include "host_driver/interval_map.h"

namespace mydev::host_driver {

class PinnedMemory {
 public:
  void* allocate(size_t bytes);  // raises RESOURCE_EXHAUSTED
  void free(void* data);         // raises INVALID_ARGUMENT for what allocate did not give
  // Memory that is someone else's. Raises INVALID_ARGUMENT where it is known already, or was not registered.
  void register_range(void* data, size_t bytes);
  void unregister_range(void* data);
  bool contains(const void* data);
  bool find(const void* data, void*& out_base, uint64_t& out_bytes);

 private:
  enum class Origin { kAllocated, kRegistered };
  size_t take(void* data, Origin origin);

  std::shared_mutex mutex_;  // guards what follows
  IntervalMap<Origin> ranges_;
};

}  // namespace mydev::host_driver
