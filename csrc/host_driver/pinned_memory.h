// Host memory from host_alloc: copies from and to it need not wait. Thread-safe.
#pragma once

#include <cstddef>
#include <shared_mutex>
#include <variant>

#include "host_driver/interval_map.h"

namespace mydev::host_driver {

class PinnedMemory {
 public:
  void* allocate(size_t bytes);  // raises RESOURCE_EXHAUSTED
  void free(void* data);         // raises INVALID_ARGUMENT for what allocate did not give
  bool contains(const void* data);

 private:
  std::shared_mutex mutex_;  // guards what follows
  IntervalMap<std::monostate> ranges_;
};

}  // namespace mydev::host_driver
