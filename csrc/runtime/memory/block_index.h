// Finds a block by its address, without a lock: for devices whose memory the host may address.
//
// A radix table over the 47 address bits in use: two levels find the 2 MiB region, its leaf has one entry for each
// address that a block may begin at (blocks are multiples of kSmallGranularity). Levels and leaves are made when an
// address in them is first set and never released, so reading needs no lock; pages of a leaf cost memory only where
// blocks begin. set and clear are called under the mutex of the device that owns the address.
#pragma once

#include "runtime/memory/memory_segment.h"

namespace mydev::block_index {

void set(const void* data, Chunk* chunk);
void clear(const void* data) noexcept;
// The chunk that was set for exactly this address, or nullptr.
Chunk* find(const void* data) noexcept;

}  // namespace mydev::block_index
