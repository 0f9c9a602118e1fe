#include "runtime/memory/block_index.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <new>

#include "runtime/base/status.h"
#include "runtime/memory/size_classes.h"

namespace mydev::block_index {
namespace {

constexpr int kEntryShift = 6;
constexpr int kRegionShift = 21;
constexpr int kMiddleBits = 13;
constexpr int kRootBits = 14;
constexpr int kAddressBits = kRegionShift + kMiddleBits + kRootBits;
static_assert(size_t{1} << kEntryShift == kSmallGranularity);

// Raw pointers, read and written through atomic_ref: zeroed pages are valid nodes without a constructor that would
// touch them.
struct Leaf {
  Chunk* entries[size_t{1} << (kRegionShift - kEntryShift)];
};
struct Middle {
  Leaf* leaves[size_t{1} << kMiddleBits];
};
std::array<Middle*, size_t{1} << kRootBits> root;

template <typename T>
T* load(T*& slot) noexcept {
  return std::atomic_ref<T*>(slot).load(std::memory_order_acquire);  // pairs with the release that published the node
}

template <typename T>
T& get_or_make(T*& slot) {
  T* node = load(slot);
  if (node != nullptr) return *node;
  void* pages = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  // Devices share regions, so another one may be first; `node` is then the other's.
  if (std::atomic_ref<T*>(slot).compare_exchange_strong(node, static_cast<T*>(pages), std::memory_order_acq_rel)) {
    return *static_cast<T*>(pages);
  }
  munmap(pages, sizeof(T));
  return *node;
}

struct Position {
  size_t root, middle, entry;
};
Position position(const void* data) noexcept {
  const auto address = reinterpret_cast<uintptr_t>(data);
  return {address >> (kRegionShift + kMiddleBits), (address >> kRegionShift) & ((size_t{1} << kMiddleBits) - 1),
          (address & ((size_t{1} << kRegionShift) - 1)) >> kEntryShift};
}

// The entry for an address that may begin a block, if its leaf exists.
Chunk** entry_of(const void* data) noexcept {
  const Position at = position(data);
  if (at.root >= root.size()) return nullptr;
  Middle* middle = load(root[at.root]);
  if (middle == nullptr) return nullptr;
  Leaf* leaf = load(middle->leaves[at.middle]);
  return leaf == nullptr ? nullptr : &leaf->entries[at.entry];
}

}  // namespace

void set(const void* data, Chunk* chunk) {
  const Position at = position(data);
  MYDEV_CHECK(at.root < root.size(), MYDEV_UNIMPLEMENTED, "the driver returned ", data,
              " as host-accessible memory; addresses above ", kAddressBits, " bits are not supported");
  Leaf& leaf = get_or_make(get_or_make(root[at.root]).leaves[at.middle]);
  std::atomic_ref<Chunk*>(leaf.entries[at.entry]).store(chunk, std::memory_order_release);
}

void clear(const void* data) noexcept {
  if (Chunk** entry = entry_of(data)) std::atomic_ref<Chunk*>(*entry).store(nullptr, std::memory_order_release);
}

Chunk* find(const void* data) noexcept {
  if (reinterpret_cast<uintptr_t>(data) % kSmallGranularity != 0) return nullptr;
  Chunk** entry = entry_of(data);
  return entry == nullptr ? nullptr : load(*entry);
}

}  // namespace mydev::block_index
