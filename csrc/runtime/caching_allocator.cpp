#include "runtime/caching_allocator.h"

#include <pthread.h>

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/block_index.h"
#include "runtime/device_memory.h"
#include "runtime/size_classes.h"
#include "runtime/status.h"
#include "runtime/thread_cache.h"
#include "runtime/thread_state.h"

namespace mydev {
namespace {

// --- the calling thread's caches -------------------------------------------------------------------------------------

// The bins used last. Trivial, so that reading it costs one instruction; nullptr sends a call the slow way.
MYDEV_STATIC_TLS constinit thread_local StreamBins* last_bins = nullptr;
constinit thread_local bool thread_ended = false;

std::atomic<void (*)()> thread_cache_created{nullptr};

struct ThreadCaches {
  std::array<std::unique_ptr<ThreadCache>, kMaxDevices> of_device;
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
        const ThreadCache* left = cache.release();
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
  std::unique_ptr<ThreadCache>& cache = caches->of_device[static_cast<size_t>(memory.device().index)];
  if (cache == nullptr) cache = std::make_unique<ThreadCache>(memory);
  return cache.get();
}

[[gnu::noinline]] Chunk* allocate_slowly(Stream& stream, size_t bytes) {
  DeviceMemory& memory = DeviceMemory::of(stream.device());
  if (ThreadCaches* caches = thread_caches(); caches != nullptr && !caches->announced) {
    caches->announced = true;
    if (auto* callback = thread_cache_created.load(std::memory_order_acquire)) callback();
  }
  if (bytes == 0) return memory.allocate_empty(stream);
  ThreadCache* cache = thread_cache(memory);
  if (cache == nullptr || bytes > kSmallLimit) return memory.allocate(stream, bytes, cache);
  StreamBins& bins = cache->bins_for(stream);
  last_bins = &bins;
  if (Chunk* chunk = cache->take(bins, bytes)) return chunk;
  return cache->refill(bins, bytes);
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
  last_bins = &bins;
  const int size_class = chunk->size_class;
  if (!cache->give(bins, chunk)) cache->trim(bins, size_class);
}

// --- settings --------------------------------------------------------------------------------------------------------

struct Settings {
  std::mutex mutex;
  std::vector<std::unique_ptr<const AllocatorSettings>> all;  // readers may hold on to any of them
  std::atomic<const AllocatorSettings*> current{nullptr};

  Settings() { set({}); }
  void set(const AllocatorSettings& settings) {
    const std::lock_guard guard(mutex);
    all.push_back(std::make_unique<AllocatorSettings>(settings));
    current.store(all.back().get(), std::memory_order_release);
  }
};

Settings& settings_store() {
  static Settings& instance = *new Settings;  // blocks are freed until the very end of the process
  return instance;
}

}  // namespace

// --- blocks ----------------------------------------------------------------------------------------------------------

Block* allocate(Stream& stream, size_t bytes) {
  StreamBins* bins = last_bins;
  if (bins != nullptr && bins->stream == &stream && bytes - 1 < kSmallLimit) [[likely]] {
    if (Chunk* chunk = bins->cache->take(*bins, bytes)) [[likely]]
      return chunk;
  }
  return allocate_slowly(stream, bytes);
}

void retain(Block& block) noexcept {
  block.references.fetch_add(1, std::memory_order_relaxed);
}

void release(Block& block) noexcept {
  // The only reference cannot be shared by anyone else meanwhile, which saves an atomic exchange.
  if (block.references.load(std::memory_order_acquire) != 1 &&
      block.references.fetch_sub(1, std::memory_order_acq_rel) != 1) {
    return;
  }
  auto* chunk = static_cast<Chunk*>(&block);
  StreamBins* bins = last_bins;
  if (bins != nullptr && bins->stream == chunk->stream && chunk->size_class >= 0 && chunk->users == nullptr)
      [[likely]] {
    const int size_class = chunk->size_class;
    if (!bins->cache->give(*bins, chunk)) [[unlikely]]
      bins->cache->trim(*bins, size_class);
    return;
  }
  free_slowly(chunk);
}

Block* find_block(const void* data) noexcept {
  Chunk* chunk = block_index::find(data);
  return chunk != nullptr && chunk->references.load(std::memory_order_acquire) > 0 ? chunk : nullptr;
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

void set_allocator_settings(const AllocatorSettings& settings) {
  MYDEV_CHECK(settings.medium_segment_size >= kMediumLimit && settings.medium_segment_size % kSegmentGranularity == 0,
              MYDEV_INVALID_ARGUMENT, "medium_segment_size must be a multiple of ", kSegmentGranularity,
              " bytes and at least ", kMediumLimit, ", but is ", settings.medium_segment_size);
  MYDEV_CHECK(settings.max_split_size >= settings.medium_segment_size, MYDEV_INVALID_ARGUMENT,
              "max_split_size must be at least medium_segment_size, ", settings.medium_segment_size, " bytes, but is ",
              settings.max_split_size);
  MYDEV_CHECK(settings.garbage_collection_threshold >= 0 && settings.garbage_collection_threshold < 1,
              MYDEV_INVALID_ARGUMENT, "garbage_collection_threshold must be at least 0 and below 1, but is ",
              settings.garbage_collection_threshold);
  settings_store().set(settings);
}

const AllocatorSettings& allocator_settings() noexcept {
  return *settings_store().current.load(std::memory_order_acquire);
}

void set_thread_cache_created_callback(void (*callback)()) {
  thread_cache_created.store(callback, std::memory_order_release);
}

}  // namespace mydev
