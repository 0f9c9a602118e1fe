#include "runtime/memory/caching_allocator.h"

#include <pthread.h>

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/thread_state.h"
#include "runtime/driver/driver_life_cycle.h"
#include "runtime/memory/address_space.h"
#include "runtime/memory/block_index.h"
#include "runtime/memory/caching_switch.h"
#include "runtime/memory/device_memory.h"
#include "runtime/memory/entered_pools.h"
#include "runtime/memory/memory_events.h"
#include "runtime/memory/size_classes.h"
#include "runtime/memory/thread_cache.h"

namespace mydev {
namespace {

// --- the calling thread's caches -------------------------------------------------------------------------------------

// The bins used last. Trivial, so that reading it costs one instruction; nullptr sends a call the slow way.
MYDEV_STATIC_TLS constinit thread_local StreamBins* last_bins = nullptr;
constinit thread_local bool thread_ended = false;

std::atomic<void (*)()> thread_cache_created{nullptr};

// A thread's cache for one device, which the device knows while it lives.
struct RegisteredCache {
  DeviceMemory& memory;
  ThreadCache cache;

  explicit RegisteredCache(DeviceMemory& device_memory) : memory(device_memory), cache(device_memory.granularity()) {
    memory.add_cache(&cache);
  }
  ~RegisteredCache() { memory.remove_cache(&cache); }
  RegisteredCache(const RegisteredCache&) = delete;
  RegisteredCache& operator=(const RegisteredCache&) = delete;
};

struct ThreadCaches {
  std::array<std::unique_ptr<RegisteredCache>, kMaxDevices> of_device;
  bool announced = false;

  ThreadCaches() {
    static std::once_flag once;
    // The child has no caches: it must come the slow way, to be refused.
    std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { last_bins = nullptr; }); });
  }
  ~ThreadCaches() {
    last_bins = nullptr;
    thread_ended = true;
    if (in_bad_fork()) {
      // Their locks may be held for ever: leave them.
      for (auto& cache : of_device) {
        const RegisteredCache* left = cache.release();
        static_cast<void>(left);
      }
    }
  }
  ThreadCaches(const ThreadCaches&) = delete;
  ThreadCaches& operator=(const ThreadCaches&) = delete;
};

// nullptr when the thread is past its end.
ThreadCaches* thread_caches() {
  if (thread_ended) return nullptr;
  thread_local ThreadCaches caches;
  return &caches;
}

// The thread's cache for the device, made if need be; nullptr when the thread is past its end.
ThreadCache* thread_cache(DeviceMemory& memory) {
  ThreadCaches* caches = thread_caches();
  if (caches == nullptr) return nullptr;
  std::unique_ptr<RegisteredCache>& registered = caches->of_device[static_cast<size_t>(memory.device().index)];
  if (registered == nullptr) registered = std::make_unique<RegisteredCache>(memory);
  return &registered->cache;
}

// The bin of the class, or the whole cache, has become too full.
[[gnu::noinline]] void trim(StreamBins& bins, int size_class) noexcept {
  DeviceMemory& memory = *DeviceMemory::existing(bins.stream->device().index);
  memory.return_from_cache(bins.cache->trim(bins, size_class));
}

// The thread looks first at these bins, for what it allocates with `served`: their own stream, or one whose memory
// comes from a pool that the thread has entered.
void use_first(StreamBins& bins, const Stream& served) noexcept {
  bins.served = &served;
  last_bins = &bins;
}

[[gnu::noinline]] Chunk* allocate_slowly(Stream& given, size_t bytes) {
  const bool in_pool = entered_any_pool();
  Stream& usual = given.memory_pool();
  Stream& stream = in_pool ? key_of_entered_pool(given) : usual;
  DeviceMemory& memory = DeviceMemory::of(stream.device());
  if (ThreadCaches* caches = thread_caches(); caches != nullptr && !caches->announced) {
    caches->announced = true;
    if (auto* callback = thread_cache_created.load(std::memory_order_acquire)) callback();
  }
  if (bytes == 0) return memory.make_unbacked(stream, nullptr, 0);
  if (stream.keeps_memory()) {
    if (AddressSpace* space = AddressSpace::of(stream)) {
      return memory.make_unbacked(stream, space->reserve(bytes), bytes);
    }
  }
  ThreadCache* cache = thread_cache(memory);
  if (!memory_cached() && !stream.keeps_memory()) [[unlikely]]
    return memory.allocate_uncached(stream, bytes, cache);
  if (cache == nullptr || bytes > kSmallLimit) return memory.allocate(stream, bytes, cache);
  StreamBins& bins = cache->bins_for(stream);
  if (!in_pool || &stream != &usual) use_first(bins, usual);
  if (Chunk* chunk = cache->take(bins, bytes)) return chunk;
  const int size_class = cache->class_of(bytes);
  return cache->refill(bins, memory.take_for_cache(stream, size_class, refill_count(size_class)), bytes);
}

[[gnu::noinline]] void free_slowly(Chunk* chunk) noexcept {
  if (in_bad_fork()) return;
  DeviceMemory& memory = *DeviceMemory::existing(chunk->stream->device().index);
  ThreadCache* cache = thread_cache(memory);
  if (cache == nullptr || chunk->size_class < 0 || chunk->users != nullptr) {
    memory.free(chunk, cache);
    return;
  }
  StreamBins& bins = cache->bins_for(*chunk->stream);
  if (!entered_any_pool()) use_first(bins, *chunk->stream);
  const int size_class = chunk->size_class;
  if (!cache->give(bins, chunk)) trim(bins, size_class);
}

}  // namespace

void forget_last_bins() noexcept {
  last_bins = nullptr;
}

// --- blocks ----------------------------------------------------------------------------------------------------------

namespace {

Block* allocate_unobserved(Stream& given, size_t bytes) {
  Stream& stream = given.memory_pool();
  StreamBins* bins = last_bins;
  if (bins != nullptr && bins->served == &stream && bytes - 1 < kSmallLimit && memory_cached()) [[likely]] {
    if (Chunk* chunk = bins->cache->take(*bins, bytes)) [[likely]]
      return chunk;
  }
  return allocate_slowly(given, bytes);
}

[[gnu::cold]] [[gnu::noinline]] Block* allocate_observed(Stream& stream, size_t bytes) {
  detail::tell_of_memory(MemoryEventKind::kAllocating, stream, nullptr, bytes);
  Block* block = allocate_unobserved(stream, bytes);
  detail::tell_of_memory(MemoryEventKind::kAllocated, *block->stream, block->data, block->size);
  return block;
}

// Called before anyone else can have the memory. If other streams may still use it, the free is completed later
// (memory_reclaim.cpp).
[[gnu::cold]] [[gnu::noinline]] void tell_of_release(const Chunk& chunk) noexcept {
  if (chunk.data == nullptr) return;
  detail::tell_of_memory(MemoryEventKind::kFreeRequested, *chunk.stream, chunk.data, chunk.size);
  if (chunk.users == nullptr) {
    detail::tell_of_memory(MemoryEventKind::kFreeCompleted, *chunk.stream, chunk.data, chunk.size);
  }
}

}  // namespace

Block* allocate(Stream& stream, size_t bytes) {
  if (detail::memory_observed()) [[unlikely]]
    return allocate_observed(stream, bytes);
  return allocate_unobserved(stream, bytes);
}

void retain(Block& block) noexcept {
  block.references.fetch_add(1, std::memory_order_relaxed);
}

void release(Block& block) noexcept {
  // Nobody else can share the only reference meanwhile, which saves an atomic exchange.
  if (block.references.load(std::memory_order_acquire) != 1 &&
      block.references.fetch_sub(1, std::memory_order_acq_rel) != 1) {
    return;
  }
  auto* chunk = static_cast<Chunk*>(&block);
  if (detail::memory_observed()) [[unlikely]]
    tell_of_release(*chunk);
  StreamBins* bins = last_bins;
  if (bins != nullptr && bins->stream == chunk->stream && chunk->size_class >= 0 && chunk->users == nullptr)
      [[likely]] {
    const int size_class = chunk->size_class;
    if (!bins->cache->give(*bins, chunk)) [[unlikely]]
      trim(*bins, size_class);
    return;
  }
  free_slowly(chunk);
}

Block* find_block(const void* data) noexcept {
  Chunk* chunk = block_index::find(data);
  return chunk != nullptr && chunk->references.load(std::memory_order_acquire) > 0 ? chunk : nullptr;
}

Block* block_containing(int device, const void* data) noexcept {
  DeviceMemory* memory = DeviceMemory::existing(device);
  return memory == nullptr ? nullptr : memory->live_chunk_at(data);
}

int device_of_pointer(const void* data) noexcept {
  for (int index = 0; index < kMaxDevices; ++index) {
    DeviceMemory* memory = DeviceMemory::existing(index);
    if (memory != nullptr && memory->device().host_accessible() && memory->contains(data)) return index;
  }
  return -1;
}

void record_stream(Block& block, Stream& stream) {
  stream.check_open();
  if (Capture* capture = stream.capture()) return capture->keep(block);
  DeviceMemory::of(block.stream->device()).record_stream(static_cast<Chunk*>(&block), stream);
}

// --- figures and limits ----------------------------------------------------------------------------------------------

void empty_cache(int device) {
  mydev::device(device);
  if (DeviceMemory* memory = DeviceMemory::existing(device)) memory->empty_cache();
}

AllocatorStats allocator_stats(int device) {
  mydev::device(device);
  DeviceMemory* memory = DeviceMemory::existing(device);
  return memory == nullptr ? AllocatorStats{} : memory->stats();
}

void reset_accumulated_stats(int device) {
  mydev::device(device);
  if (DeviceMemory* memory = DeviceMemory::existing(device)) memory->reset_accumulated_stats();
}

void reset_peak_stats(int device) {
  mydev::device(device);
  if (DeviceMemory* memory = DeviceMemory::existing(device)) memory->reset_peak_stats();
}

std::vector<SegmentSnapshot> memory_snapshot() {
  std::vector<SegmentSnapshot> snapshot;
  for (int index = 0; index < kMaxDevices; ++index) {
    if (DeviceMemory* memory = DeviceMemory::existing(index)) memory->append_snapshot(snapshot);
  }
  return snapshot;
}

void memory_info(int device, uint64_t& free_bytes, uint64_t& total_bytes) {
  DeviceMemory::info(mydev::device(device), free_bytes, total_bytes);
}

void set_memory_fraction(int device, double fraction) {
  MYDEV_CHECK(fraction > 0 && fraction <= 1, MYDEV_INVALID_ARGUMENT,
              "the memory fraction must be above 0 and at most 1, "
              "but is ",
              fraction);
  DeviceMemory::of(mydev::device(device)).set_memory_fraction(fraction);
}

double memory_fraction(int device) {
  return DeviceMemory::of(mydev::device(device)).memory_fraction();
}

void set_thread_cache_created_callback(void (*callback)()) {
  thread_cache_created.store(callback, std::memory_order_release);
}

}  // namespace mydev
