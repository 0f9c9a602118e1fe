// Segments of driver memory, and the chunks that they are cut into. Private to the allocator.
//
// A segment is one driver allocation for one stream; its chunks form a list by address that covers every byte. A chunk
// is free (in the stream's set of free chunks), out (a thread cache or the user has it), or deferred (freed, but a
// stream that used it has yet to pass). Everything here is guarded by DeviceMemory's mutex, except what Block says and
// next_cached, which belongs to whoever has the chunk. Chunk objects are recycled and never destroyed, so that a
// pointer to one may be looked at without a lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "runtime/memory/memory_block.h"
#include "runtime/memory/private_pool.h"

namespace mydev {

struct Chunk;
struct Segment;

struct BySizeThenAddress {
  using is_transparent = void;
  bool operator()(const Chunk* a, const Chunk* b) const noexcept;
  bool operator()(const Chunk* a, size_t size) const noexcept;
  bool operator()(size_t size, const Chunk* b) const noexcept;
};
using FreeChunks = std::set<Chunk*, BySizeThenAddress>;

struct Chunk : Block {
  enum class State : uint8_t { kFree, kOut, kDeferred };

  Chunk* next_cached;  // in a bin of a thread cache, or among chunks that are recycled or returned
  std::unique_ptr<std::vector<Stream*>> users;  // streams announced by record_stream
  Segment* segment;                             // nullptr for a block that is not backed
  Chunk* previous;
  Chunk* next;
  State state;
  int pending_events;          // while deferred
  FreeChunks::node_type node;  // kept for the set of free chunks, so that freeing allocates nothing
};

// Makes the chunk a block of the user's.
inline void hand_out(Chunk* chunk, size_t requested) noexcept {
  chunk->requested = requested;
  chunk->framework_alias.store(nullptr, std::memory_order_relaxed);
  chunk->references.store(1, std::memory_order_relaxed);
}

struct Segment {
  void* data;
  size_t size;
  Stream* stream;
  PoolId pool;  // {0, 0}: none
  bool large;
  bool cached;  // false: goes back to the driver as soon as its only chunk is free (caching_switch.h)
  Chunk* first;
  size_t chunks;       // in the list
  size_t free_chunks;  // of these in state kFree
  size_t free_bytes;
  uint64_t last_use;  // tick of the last chunk taken

  bool unused() const noexcept { return free_bytes == size; }
  bool split() const noexcept { return chunks > 1; }
};

inline bool BySizeThenAddress::operator()(const Chunk* a, const Chunk* b) const noexcept {
  return a->size != b->size ? a->size < b->size : std::less<>()(a->data, b->data);
}
inline bool BySizeThenAddress::operator()(const Chunk* a, size_t size) const noexcept {
  return a->size < size;
}
inline bool BySizeThenAddress::operator()(size_t size, const Chunk* b) const noexcept {
  return size < b->size;
}

}  // namespace mydev
