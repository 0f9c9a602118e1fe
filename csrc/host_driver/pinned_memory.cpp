#include "host_driver/pinned_memory.h"

#include <sys/mman.h>

#include <mutex>

#include "host_driver/host_error.h"

namespace mydev::host_driver {

void* PinnedMemory::allocate(size_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(data != MAP_FAILED, MYDEV_RESOURCE_EXHAUSTED, "out of host memory: ", bytes, " bytes asked for");
  const std::unique_lock lock(mutex_);
  ranges_.insert(data, bytes, {});
  return data;
}

void PinnedMemory::free(void* data) {
  const std::unique_lock lock(mutex_);
  const auto range = ranges_.extract(data);
  if (!range.has_value()) raise(MYDEV_INVALID_ARGUMENT, "no page-locked memory begins at ", data);
  ::munmap(data, range->size);
}

bool PinnedMemory::contains(const void* data) {
  const std::shared_lock lock(mutex_);
  return ranges_.contains(data);
}

}  // namespace mydev::host_driver
