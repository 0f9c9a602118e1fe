#include "kernels/ffi/ffi_memory.h"

#include <map>
#include <memory>
#include <mutex>

#include "runtime/memory/no_reclaim.h"
#include "runtime/stream/stream_table.h"

namespace mydev::ffi {

namespace {

// The default stream for a handle that is no stream's any more.
Stream& stream_with(int device, mydev_stream handle) {
  for (Stream* stream : existing_streams(device)) {
    if (stream->handle() == handle) return *stream;
  }
  return default_stream(device);
}

// Pools are told apart by their Stream: an alias of the stream that runs, which no one else uses.
Stream& pool_of(int device, mydev_stream handle) {
  struct Pools {
    std::mutex mutex;
    std::map<const Stream*, std::unique_ptr<Stream>> aliases;
  };
  static Pools& pools = *new Pools;
  const Stream& running = stream_with(device, handle);
  const std::lock_guard lock(pools.mutex);
  std::unique_ptr<Stream>& alias = pools.aliases[&running];
  if (alias == nullptr) alias = Stream::alias_of(running);
  return *alias;
}

}  // namespace

Block* allocate_while_running(int device, mydev_stream stream, size_t bytes) {
  const NoReclaim scope;
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
