// Addresses that are known later: offsets from memory that an executor has not yet, or that each run brings.
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mydev::program {

// The arena's first block, the constants, what a run binds, the arena's other blocks; then what moves from round to
// round of a loop.
using BaseIndex = uint32_t;
inline constexpr BaseIndex kArenaBase = 0, kConstantsBase = 1, kFirstBoundBase = 2;

struct Address {
  BaseIndex base = 0;
  uint64_t offset = 0;
};

// Pointers that follow a base: written when its memory is set, and whenever that is another.
class Bases {
 public:
  explicit Bases(size_t count) : bases_(count) {}

  BaseIndex add() {
    bases_.emplace_back();
    return static_cast<BaseIndex>(bases_.size() - 1);
  }

  // `pointer` stays in place as long as this lives, and its base has no memory yet.
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
  // Of the first so many.
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
