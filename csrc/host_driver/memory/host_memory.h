// Memory of one host device.
//
// A range of addresses is reserved at the first allocation; an allocation makes a piece of it usable, a free gives the
// pages back to the system and keeps the addresses for later. If the system refuses the reservation, each allocation is
// a mapping of its own. Pieces of 2 MiB and more are aligned to, and backed by, huge pages.
//
// Guarded memory is inaccessible but between begin_access and end_access, which nest and may come from any thread; a
// stray access ends the process with a message that names the address and the device. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "host_driver/interval_map.h"

namespace mydev::host_driver {

class HostMemory {
 public:
  HostMemory() = default;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  // Must be called before any other. `device` is for messages; `remote` says that addresses are checked before they are
  // used.
  void configure(int32_t device, uint64_t limit, bool guarded, bool remote);

  void* allocate(uint64_t bytes);  // raises RESOURCE_EXHAUSTED
  void free(void* data);           // raises INVALID_ARGUMENT for what allocate did not give
  // True if the address lies in an allocation; then also gives where that begins, and the bytes asked for.
  bool find(const void* data, void*& out_base, uint64_t& out_bytes);
  uint64_t limit() const noexcept { return limit_; }
  uint64_t allocated() const noexcept { return allocated_.load(std::memory_order_relaxed); }

  bool guarded() const noexcept { return guarded_; }
  bool remote() const noexcept { return remote_; }
  void begin_access() {
    if (guarded_) {
      change_access(+1);
    }
  }
  void end_access() {
    if (guarded_) {
      change_access(-1);
    }
  }

  // The same for the allocation that these bytes lie in. Raises INVALID_ARGUMENT if they do not lie in one.
  void begin_access(void* data, uint64_t bytes) { change_access(data, bytes, +1); }
  void end_access(void* data, uint64_t bytes) { change_access(data, bytes, -1); }

  // For the fault handler: signal-safe.
  int32_t device() const noexcept { return device_; }
  bool reserves(uintptr_t address) const noexcept;
  bool accessible() const noexcept { return accessors_.load(std::memory_order_relaxed) > 0; }

 private:
  void change_access(int by);
  void change_access(void* data, uint64_t bytes, int by);
  int protection() const noexcept;
  void reserve_addresses();
  uintptr_t take_addresses(size_t bytes, size_t alignment);
  void give_addresses(uintptr_t address, size_t bytes);

  int32_t device_ = 0;
  uint64_t limit_ = 0;
  bool guarded_ = false;
  bool remote_ = false;
  std::atomic<uint64_t> allocated_{0};
  std::atomic<uintptr_t> arena_begin_{0}, arena_end_{0};
  std::atomic<int> accessors_{0};  // written under mutex_

  std::mutex mutex_;  // guards what follows, and changes of protection
  bool reservation_tried_ = false;
  std::map<uintptr_t, size_t> free_addresses_;  // of the arena, merged
  std::map<uintptr_t, int> opened_;             // accessors of single allocations, by address
  IntervalMap<uint64_t> live_;  // whole pages; the value is the bytes asked for, which count towards the limit
};

// Access to a device's memory for the time of a scope.
class MemoryAccess {
 public:
  explicit MemoryAccess(HostMemory& memory) : memory_(memory) { memory_.begin_access(); }
  ~MemoryAccess() { memory_.end_access(); }
  MemoryAccess(const MemoryAccess&) = delete;
  MemoryAccess& operator=(const MemoryAccess&) = delete;

 private:
  HostMemory& memory_;
};

}  // namespace mydev::host_driver
