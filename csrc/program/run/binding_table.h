// The binding table: addresses that are known later, as offsets from memory that an executor does not have yet, or that
// each run brings. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mydev::program {

// An index into the binding table: the arena's first block, the constants, the memory that a run binds, the arena's
// other blocks; then operands that move from iteration to iteration of a loop.
using BindingIndex = uint32_t;
inline constexpr BindingIndex kArenaBinding = 0, kConstantsBinding = 1, kFirstRunBinding = 2;

struct Address {
  BindingIndex entry = 0;
  uint64_t offset = 0;
};

// Pointers that follow an entry of the binding table. They are written when the entry's memory is set, and whenever it
// changes.
class BindingTable {
 public:
  explicit BindingTable(size_t count) : entries_(count) {}

  BindingIndex add() {
    entries_.emplace_back();
    return static_cast<BindingIndex>(entries_.size() - 1);
  }

  // `pointer` must stay in place as long as this lives. Its entry has no memory yet.
  void follow(void*& pointer, const Address& address) {
    entries_[address.entry].pointers.push_back({&pointer, address.offset});
  }
  void set(BindingIndex index, void* memory) noexcept {
    Entry& entry = entries_[index];
    if (entry.memory == memory) [[likely]]
      return;
    entry.memory = memory;
    for (const Pointer& pointer : entry.pointers) *pointer.where = static_cast<char*>(memory) + pointer.offset;
  }
  // Gets the memory of the first `count` entries.
  void memory_of(size_t count, std::vector<void*>& memory) const {
    memory.resize(count);
    for (size_t i = 0; i < count; ++i) memory[i] = entries_[i].memory;
  }

 private:
  struct Pointer {
    void** where;
    uint64_t offset;
  };
  struct Entry {
    void* memory = nullptr;
    std::vector<Pointer> pointers;
  };
  std::vector<Entry> entries_;
};

}  // namespace mydev::program
