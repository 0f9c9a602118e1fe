// Memory that consists of addresses alone, for a program that is recorded now and given memory at each run.
//
// Nothing is allocated on the device, and nothing counts in statistics. No address is given out twice while the space
// lives, so that an address in the recorded program says which memory is meant. Reading or writing it on the host
// faults.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/base/api.h"
#include "runtime/memory/memory_pool.h"

namespace mydev {

struct Reservation {
  void* data;
  size_t bytes;  // as asked for, never 0
};

class MYDEV_API AddressSpace final : public MemoryPool {
 public:
  explicit AddressSpace(int device);
  ~AddressSpace() override;

  // A stream of its own, which is never given work: to capture on. Memory that is allocated for it is reserved here.
  Stream& stream() noexcept { return stream_; }
  Stream& key_of(const Stream& stream) override;
  bool has_key(const Stream& key) const override { return &key == &stream_; }
  // Returns the reservations so far, by address. Thread-safe.
  std::vector<Reservation> reservations() const;

  // --- for the allocator ---

  // The live space whose stream this is, or nullptr. Thread-safe.
  static AddressSpace* of(const Stream& stream) noexcept;
  // bytes > 0. Raises RESOURCE_EXHAUSTED if the process has no more addresses. Thread-safe.
  void* reserve(size_t bytes);

 private:
  struct Region {
    std::byte* data;
    size_t bytes, used;
  };

  Stream& stream_;
  mutable std::mutex mutex_;
  std::vector<Region> regions_;
  std::vector<Reservation> reservations_;
};

}  // namespace mydev
