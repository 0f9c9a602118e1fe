#include "kernels/ffi/ffi_memory.h"

namespace mydev::ffi {

Block* retain_block_with(int device, const void* address) noexcept {
  if (address == nullptr || device_of_pointer(address) != device) return nullptr;
  // Blocks begin at multiples of this. Rarely used, and an address is seldom far into its block.
  constexpr uintptr_t kGranularity = 64;
  for (uintptr_t at = reinterpret_cast<uintptr_t>(address) & ~(kGranularity - 1);; at -= kGranularity) {
    const auto* begin = reinterpret_cast<const void*>(at);
    if (device_of_pointer(begin) != device) return nullptr;
    Block* block = find_block(begin);
    if (block == nullptr) continue;
    const bool inside = reinterpret_cast<uintptr_t>(address) < at + block->size;
    if (!inside) return nullptr;
    retain(*block);
    return block;
  }
}

}  // namespace mydev::ffi
