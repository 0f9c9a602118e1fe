// The blocks that a handler's operands lie in. Waits for nothing. Thread-safe.
#pragma once

#include "runtime/memory/caching_allocator.h"

namespace mydev::ffi {

// Keeps the block that has this address, if one does, until it is released; else nullptr.
Block* retain_block_with(int device, const void* address) noexcept;

}  // namespace mydev::ffi
