// The memory of a simulated card, for the drivers of this directory: what a real driver has hardware for. The addresses
// that it hands out are reserved and inaccessible, the data lie elsewhere.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>

class SimulatedMemory {
 public:
  static constexpr uint32_t kAlignment = 256;

  // Once, before anything else. False without address space for it.
  bool reserve(uint64_t bytes) {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    size_ = bytes;
    address_ = static_cast<char*>(mmap(nullptr, bytes, PROT_NONE, kFlags, -1, 0));
    data_ = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0));
    free_ranges_ = {{0, bytes}};
    return address_ != MAP_FAILED && data_ != MAP_FAILED;
  }

  // Returns the place where the data of an address lie.
  void* translate(const void* pointer) const { return data_ + (static_cast<const char*>(pointer) - address_); }
  char* base() const { return data_; }  // of all data
  bool holds(const void* pointer, uint64_t bytes) const {
    const auto offset = static_cast<uint64_t>(static_cast<const char*>(pointer) - address_);
    return pointer >= address_ && offset <= size_ && bytes <= size_ - offset;
  }

  // nullptr: no free range is large enough.
  void* allocate(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    const uint64_t size = round_up(bytes);
    for (auto range = free_ranges_.begin(); range != free_ranges_.end(); ++range) {
      const auto [offset, available] = *range;
      if (bytes > available || size > available) continue;
      free_ranges_.erase(range);
      if (size < available) free_ranges_[offset + size] = available - size;
      return address_ + offset;
    }
    return nullptr;
  }

  // False for what is no memory of this card.
  bool free(void* data, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (!holds(data, bytes)) return false;
    const auto offset = static_cast<uint64_t>(static_cast<char*>(data) - address_);
    uint64_t size = round_up(bytes);
    auto next = free_ranges_.lower_bound(offset);
    if (next != free_ranges_.end() && next->first == offset + size) {
      size += next->second;
      next = free_ranges_.erase(next);
    }
    if (next != free_ranges_.begin()) {
      const auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        previous->second += size;
        return true;
      }
    }
    free_ranges_[offset] = size;
    return true;
  }

 private:
  static uint64_t round_up(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  std::mutex mutex_;
  char* address_ = nullptr;
  char* data_ = nullptr;
  uint64_t size_ = 0;
  std::map<uint64_t, uint64_t> free_ranges_;  // offset, bytes
};
