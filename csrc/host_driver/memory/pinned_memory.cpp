#include "host_driver/memory/pinned_memory.h"

#include <sys/mman.h>

#include <mutex>

#include "host_driver/host_error.h"

namespace mydev::host_driver {

void* PinnedMemory::allocate(size_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(data != MAP_FAILED, MYDEV_RESOURCE_EXHAUSTED, "out of host memory: ", bytes, " bytes asked for");
  const std::unique_lock lock(mutex_);
  ranges_.insert(data, bytes, Origin::kAllocated);
  return data;
}

// Takes out the range that begins there, and gives its size.
size_t PinnedMemory::take(void* data, Origin origin) {
  const std::unique_lock lock(mutex_);
  const auto range = ranges_.find(data);
  const bool known =
      range != ranges_.end() && range->first == reinterpret_cast<uintptr_t>(data) && range->second.value == origin;
  require(known, MYDEV_INVALID_ARGUMENT, "no page-locked memory ",
          origin == Origin::kAllocated ? "that was allocated" : "that was registered", " begins at ", data);
  const size_t size = range->second.size;
  ranges_.extract(data);
  return size;
}

void PinnedMemory::free(void* data) {
  ::munmap(data, take(data, Origin::kAllocated));
}

void PinnedMemory::register_range(void* data, size_t bytes) {
  const std::unique_lock lock(mutex_);
  const auto* last = static_cast<const char*>(data) + bytes - 1;
  require(data != nullptr && bytes > 0, MYDEV_INVALID_ARGUMENT, "no memory to register: ", bytes, " bytes at ", data);
  require(!ranges_.contains(data) && !ranges_.contains(last), MYDEV_INVALID_ARGUMENT, "the ", bytes, " bytes at ", data,
          " are page-locked already, or some of them are");
  ranges_.insert(data, bytes, Origin::kRegistered);
}

void PinnedMemory::unregister_range(void* data) {
  take(data, Origin::kRegistered);
}

bool PinnedMemory::contains(const void* data) {
  const std::shared_lock lock(mutex_);
  return ranges_.contains(data);
}

bool PinnedMemory::find(const void* data, void*& out_base, uint64_t& out_bytes) {
  const std::shared_lock lock(mutex_);
  const auto range = ranges_.find(data);
  if (range == ranges_.end()) return false;
  out_base = reinterpret_cast<void*>(range->first);
  out_bytes = range->second.size;
  return true;
}

}  // namespace mydev::host_driver
