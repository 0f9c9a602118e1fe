// The binding table: addresses that are known later, as offsets from memory that an executor does not have yet, or that
// each run brings. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mydev::program {

// An index into the binding table: the arena's first block, the constants, the memory that a run binds, the arena's
// other blocks; then operands that move from iteration to iteration of a loop.
using BaseIndex = uint32_t;
inline constexpr BaseIndex kArenaBase = 0, kConstantsBase = 1, kFirstBoundBase = 2;

struct Address {
  BaseIndex base = 0;
  uint64_t offset = 0;
};

// Pointers that follow an entry of the binding table. They are written when the entry's memory is set, and whenever it
// changes.
class Bases {
 public:
  explicit Bases(size_t count) : bases_(count) {}

  BaseIndex add() {
    bases_.emplace_back();
    return static_cast<BaseIndex>(bases_.size() - 1);
  }

  // `pointer` must stay in place as long as this lives. Its base has no memory yet.
  void follow(void*& pointer, const Address& address) {
    bases_[address.base].pointers.push_back({&pointer, address.offset});
  }
  void set(BaseIndex index, void* memory) noexcept {
    Base& base = bases_[index];
    if (base.memory == memory) [[likely]]
      return;
    base.memory = memory;
    for (const Pointer& pointer : base.pointers) *pointer.where = static_cast<char*>(memory) + pointer.offset;
  }
  // Gets the memory of the first `count` bases.
  void memory_of(size_t count, std::vector<void*>& memory) const {
    memory.resize(count);
    for (size_t i = 0; i < count; ++i) memory[i] = bases_[i].memory;
  }

 private:
  struct Pointer {
    void** where;
    uint64_t offset;
  };
  struct Base {
    void* memory = nullptr;
    std::vector<Pointer> pointers;
  };
  std::vector<Base> bases_;
};

}  // namespace mydev::program
