#include "kernels/custom_call/ffi_memory.h"

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "runtime/device_memory.h"

namespace mydev::ffi {

namespace {

// An external stream may be gone when memory of its pool is given back to the driver; the default stream never is.
mydev_stream lasting_handle(int device, mydev_stream handle) {
  for (const Stream* stream : existing_streams(device)) {
    if (stream->handle() == handle && stream->id() <= 2 * kPoolSize) return handle;
  }
  return default_stream(device).handle();
}

// Pools are told apart by their Stream: one that only stands for the driver's handle, and that no one else uses.
Stream& pool_of(int device, mydev_stream handle) {
  struct Pools {
    std::mutex mutex;
    std::map<std::pair<int, mydev_stream>, std::unique_ptr<Stream>> streams;
  };
  static Pools& pools = *new Pools;
  const std::lock_guard lock(pools.mutex);
  std::unique_ptr<Stream>& stream = pools.streams[{device, handle}];
  if (stream == nullptr) {
    stream = std::make_unique<Stream>(mydev::device(device), lasting_handle(device, handle), 0, 0);
  }
  return *stream;
}

}  // namespace

Block* allocate_while_running(int device, mydev_stream stream, size_t bytes) {
  const DeviceMemory::NoWaiting scope;
  return allocate(pool_of(device, stream), bytes);
}

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
