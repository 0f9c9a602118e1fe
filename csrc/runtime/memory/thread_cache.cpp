#include "runtime/memory/thread_cache.h"

#include <mutex>
#include <utility>

namespace mydev {

StreamBins& ThreadCache::bins_for(Stream& stream) {
  for (const auto& bins : streams_) {
    if (bins->stream == &stream) return *bins;
  }
  auto bins = std::make_unique<StreamBins>(
      StreamBins{.stream = &stream, .served = &stream, .cache = this, .bytes = 0, .bins = {}});
  for (int c = 0; c < kSizeClasses; ++c) {
    bins->bins[static_cast<size_t>(c)].capacity = static_cast<uint32_t>(bin_capacity(c));
  }
  const std::lock_guard guard(lock_);
  return *streams_.emplace_back(std::move(bins));
}

Chunk* ThreadCache::refill(StreamBins& bins, Chunk* chain, size_t bytes) noexcept {
  Bin& bin = bins.bins[static_cast<size_t>(class_of(bytes))];
  const std::lock_guard guard(lock_);
  for (Chunk* chunk = chain->next_cached; chunk != nullptr;) {
    Chunk* next = chunk->next_cached;
    chunk->next_cached = bin.top;
    bin.top = chunk;
    ++bin.count;
    bins.bytes += chunk->size;
    chunk = next;
  }
  count_allocated(chain, bytes);
  return chain;
}

Chunk* ThreadCache::trim(StreamBins& bins, int size_class) noexcept {
  Chunk* surplus = nullptr;
  const auto halve = [&](Bin& bin) {
    for (const uint32_t keep = bin.count / 2; bin.count > keep; --bin.count) {
      Chunk* chunk = bin.top;
      bin.top = chunk->next_cached;
      bins.bytes -= chunk->size;
      chunk->next_cached = surplus;
      surplus = chunk;
    }
  };
  const std::lock_guard guard(lock_);
  if (bins.bytes > kCacheBytes) {
    for (Bin& bin : bins.bins) halve(bin);
  } else {
    halve(bins.bins[static_cast<size_t>(size_class)]);
  }
  return surplus;
}

Chunk* ThreadCache::detach_all() noexcept {
  const std::lock_guard guard(lock_);
  Chunk* all = nullptr;
  for (const auto& bins : streams_) {
    for (Bin& bin : bins->bins) {
      while (Chunk* chunk = bin.top) {
        bin.top = chunk->next_cached;
        chunk->next_cached = all;
        all = chunk;
      }
      bin.count = 0;
    }
    bins->bytes = 0;
  }
  return all;
}

CacheActivity ThreadCache::drain_activity() noexcept {
  const std::lock_guard guard(lock_);
  return drain_activity_locked();
}

CacheActivity ThreadCache::drain_activity_locked() noexcept {
  return std::exchange(activity_, CacheActivity{});
}

}  // namespace mydev
