// Ranges of addresses that do not overlap, each with a value, found by any address in them. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <utility>

namespace mydev::opencl_driver {

template <typename Value>
class AddressTable {
 public:
  struct Entry {
    char* begin;
    uint64_t bytes;
    Value value;
  };

  void add(void* begin, uint64_t bytes, Value value) {
    const std::unique_lock lock(mutex_);
    entries_.insert_or_assign(reinterpret_cast<uintptr_t>(begin),
                              Entry{static_cast<char*>(begin), bytes, std::move(value)});
  }

  // The range that begins there, which is no longer in the table.
  std::optional<Entry> take(const void* begin) {
    const std::unique_lock lock(mutex_);
    auto node = entries_.extract(reinterpret_cast<uintptr_t>(begin));
    return node.empty() ? std::nullopt : std::optional<Entry>(std::move(node.mapped()));
  }

  // The range that holds `bytes` bytes from `data` on. An address right behind a range holds 0 bytes of it.
  std::optional<Entry> find(const void* data, uint64_t bytes) const {
    const auto address = reinterpret_cast<uintptr_t>(data);
    const std::shared_lock lock(mutex_);
    const auto next = entries_.upper_bound(address);
    if (next == entries_.begin()) return std::nullopt;
    const Entry& entry = std::prev(next)->second;
    const uint64_t offset = address - std::prev(next)->first;
    if (offset > entry.bytes || bytes > entry.bytes - offset) return std::nullopt;
    return entry;
  }

 private:
  mutable std::shared_mutex mutex_;  // guards what follows
  std::map<uintptr_t, Entry> entries_;
};

}  // namespace mydev::opencl_driver
