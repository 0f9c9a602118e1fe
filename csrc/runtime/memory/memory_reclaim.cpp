// DeviceMemory: finding memory, in order of cost, when free chunks do not suffice; deferred frees; giving memory
// to the driver.
#include <algorithm>
#include <cstdio>

#include "runtime/base/blocking_call.h"
#include "runtime/base/device_name.h"
#include "runtime/base/status.h"
#include "runtime/memory/allocator_settings.h"
#include "runtime/memory/block_index.h"
#include "runtime/memory/device_memory.h"
#include "runtime/memory/memory_events.h"
#include "runtime/memory/no_reclaim.h"
#include "runtime/memory/size_classes.h"
#include "runtime/memory/thread_cache.h"

namespace mydev {
namespace {

std::string format_bytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  char text[48];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
  return text;
}

// Waits for the driver's stream without raising (and so losing) an error that sticks to it.
mydev_code wait_for_stream(const Stream& stream) noexcept {
  if (!stream.asynchronous() || stream.released()) return MYDEV_OK;
  mydev_code code = MYDEV_OK;
  call_blocking([&] { code = stream.device().driver->stream_synchronize(stream.handle()); });
  return code;
}

}  // namespace

// --- finding a chunk -------------------------------------------------------------------------------------------------

// A chunk of `size` bytes, marked out. May unlock and lock meanwhile.
Chunk* DeviceMemory::take(Lock& lock, Stream& stream, size_t size, size_t requested) {
  collect_deferred_frees();
  return_uncached(lock);
  if (Chunk* chunk = take_free(stream, size)) return chunk;
  const size_t segment_bytes = segment_size(size, allocator_settings().medium_segment_size);
  collect_garbage(lock, segment_bytes);
  if (Chunk* chunk = take_from_new_segment(stream, size, segment_bytes)) return chunk;
  return take_after_reclaiming(lock, stream, size, requested);
}

Chunk* DeviceMemory::take_after_reclaiming(Lock& lock, Stream& stream, size_t size, size_t requested) {
  ++stats_.num_alloc_retries;
  lock.unlock();
  std::unique_lock reclaiming(reclaim_mutex_, std::defer_lock);
  if (!NoReclaim::active()) reclaiming.lock();  // whoever has it may be waiting for this thread's stream
  flush_thread_caches();
  lock.lock();
  if (!NoReclaim::active()) wait_for_deferred_frees(lock);
  if (Chunk* chunk = take_free(stream, size)) return chunk;
  if (!NoReclaim::active()) release_segments(lock, SIZE_MAX);
  if (Chunk* chunk = take_free(stream, size)) return chunk;
  const size_t segment_bytes = segment_size(size, allocator_settings().medium_segment_size);
  if (Chunk* chunk = take_from_new_segment(stream, size, segment_bytes)) return chunk;
  if (Chunk* chunk = take_from_new_segment(stream, size, round_up(size, kLargeGranularity))) return chunk;
  if (Chunk* chunk = take_as_last_resort(stream, size)) return chunk;
  ++stats_.num_ooms;
  const std::string message = out_of_memory_message(lock, requested);
  lock.unlock();
  if (reclaiming.owns_lock()) reclaiming.unlock();  // an observer may look at memory, and give some back
  detail::tell_of_memory(MemoryEventKind::kOutOfMemory, stream, nullptr, requested);
  raise(MYDEV_RESOURCE_EXHAUSTED, message);
}

// Takes a chunk from the pools that serve as a last resort.
Chunk* DeviceMemory::take_as_last_resort(const Stream& stream, size_t size) {
  for (Stream* key : last_resort_keys(stream)) {
    if (Chunk* chunk = take_free(*key, size)) return chunk;
  }
  return nullptr;
}

std::string DeviceMemory::out_of_memory_message(Lock& lock, size_t requested) {
  const double fraction = fraction_;
  const size_t allowed = limit();
  lock.unlock();
  const AllocatorStats now = stats();
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
  info(device_, free_bytes, total_bytes);
  lock.lock();

  uint64_t in_pools = 0, free_in_pools = 0;
  for (const auto& [address, range] : segments_) {
    if (range.value->pool == PoolId{}) continue;
    in_pools += range.value->size;
    free_in_pools += range.value->free_bytes;
  }
  const auto allocated = static_cast<uint64_t>(now.allocated_bytes.all.current);
  const auto reserved = static_cast<uint64_t>(now.reserved_bytes.all.current);
  std::string message = "out of memory on " + device_text(device_.index) + ": tried to allocate " +
                        format_bytes(requested) + ". The device has a total of " + format_bytes(total_bytes) +
                        ", of which " + format_bytes(free_bytes) + " is free; this process has " +
                        format_bytes(allocated) + " allocated and " + format_bytes(reserved) + " reserved (" +
                        format_bytes(reserved - allocated) + " reserved but unallocated).";
  if (in_pools != 0) {
    message += " Of what is reserved, " + format_bytes(in_pools) + " is in private pools (graphs, MemPool), with " +
               format_bytes(free_in_pools) + " unused there.";
  }
  if (requested > device_.properties.max_allocation) {
    message +=
        " No allocation of this device may be larger than " + format_bytes(device_.properties.max_allocation) + ".";
  }
  if (fraction < 1.0) {
    message +=
        " It may reserve at most " + format_bytes(allowed) + ", the limit set by set_per_process_memory_fraction.";
  }
  if (reserved - allocated >= requested) {
    message +=
        " What is unallocated is in pieces too small, or belongs to other streams: less fragmentation, e.g. "
        "PYTORCH_ALLOC_CONF=max_split_size_mb:<size>, may help.";
  } else {
    message += " Use smaller batches, or drop references to tensors that are no longer needed.";
  }
  return message;
}

// --- deferred frees --------------------------------------------------------------------------------------------------

// Defers the free until the streams that used the chunk have passed; does nothing where none can be pending.
void DeviceMemory::defer_free(Chunk* chunk) noexcept {
  if (chunk->users == nullptr) return;
  const auto users = std::move(chunk->users);
  chunk->pending_events = 0;
  for (Stream* stream : *users) {
    if (!stream->asynchronous() || stream->released()) continue;
    try {
      std::unique_ptr<Event> event;
      if (!idle_events_.empty() && idle_events_.back()->device() == stream->device().index) {
        event = std::move(idle_events_.back());
        idle_events_.pop_back();
      } else {
        event = std::make_unique<Event>(stream->device().index, /*timing=*/false);
      }
      event->record_uncaptured(*stream);
      deferred_frees_[stream].push_back({std::move(event), chunk});
    } catch (...) {
      // No event to wait for: wait here. If that fails too the device is lost, and nothing runs on it any more.
      wait_for_stream(*stream);
      continue;
    }
    ++chunk->pending_events;
    chunk->state = Chunk::State::kDeferred;
  }
}

// Frees the chunks whose streams have passed.
void DeviceMemory::collect_deferred_frees() {
  for (auto& [stream, pending] : deferred_frees_) {
    while (!pending.empty() && (stream->released() || pending.front().event->query())) {
      DeferredFree first = std::move(pending.front());
      pending.pop_front();
      if (first.event->device() == device_.index) idle_events_.push_back(std::move(first.event));
      Chunk* chunk = first.chunk;
      if (--chunk->pending_events == 0) {
        detail::tell_of_memory(MemoryEventKind::kFreeCompleted, *chunk->stream, chunk->data, chunk->size);
        count_inactive(chunk->segment->large,
                       {1, static_cast<int64_t>(chunk->size), static_cast<int64_t>(chunk->requested)});
        retire(chunk);
      }
    }
  }
}

void DeviceMemory::wait_for_deferred_frees(Lock& lock) {
  std::vector<Stream*> streams;
  for (const auto& [stream, pending] : deferred_frees_) {
    if (!pending.empty()) streams.push_back(stream);
  }
  if (streams.empty()) return;
  ++stats_.num_sync_all_streams;
  lock.unlock();
  for (const Stream* stream : streams) check_driver(stream->device(), wait_for_stream(*stream), "waiting for a stream");
  lock.lock();
  collect_deferred_frees();
}

// --- giving memory back ----------------------------------------------------------------------------------------------

void DeviceMemory::flush_thread_caches() noexcept {
  const std::lock_guard guard(registry_mutex_);
  for (ThreadCache* cache : caches_) return_from_cache(cache->detach_all());
}

// Releases unused segments, least recently used first, until `bytes` are released or none is left. Waits for the
// streams that they belong to, since memory is freed in the order of the stream but given back at once. If a pool is
// named, only segments of that pool are released. Segments of live pools never are.
void DeviceMemory::release_segments(Lock& lock, size_t bytes, PoolId pool) {
  return_uncached(lock);
  std::vector<Segment*> unused;
  for (const auto& [address, range] : segments_) {
    Segment& segment = *range.value;
    if (pool != PoolId{} && segment.pool != pool) continue;
    if (segment.cached && segment.unused() && !segment.stream->keeps_memory()) unused.push_back(&segment);
  }
  std::sort(unused.begin(), unused.end(), [](const Segment* a, const Segment* b) { return a->last_use < b->last_use; });
  std::vector<std::unique_ptr<Segment>> victims;
  size_t sum = 0;
  for (Segment* segment : unused) {
    if (sum >= bytes) break;
    sum += segment->size;
    Chunk* chunk = segment->first;
    chunk->node = free_[segment->stream].of(segment->large).extract(chunk);
    // Before the driver can give the same address to another thread.
    if (device_.host_accessible()) block_index::clear(segment->data);
    victims.push_back(segments_.extract(segment->data));
  }
  if (victims.empty()) return;

  lock.unlock();
  mydev_code failure = MYDEV_OK;
  std::vector<const Stream*> waited;
  std::vector<bool> released(victims.size());
  for (size_t i = 0; i < victims.size() && failure == MYDEV_OK; ++i) {
    const Segment& segment = *victims[i];
    if (std::find(waited.begin(), waited.end(), segment.stream) == waited.end()) {
      failure = wait_for_stream(*segment.stream);
      waited.push_back(segment.stream);
    }
    if (failure == MYDEV_OK) failure = device_.driver->memory_free(device_.index, segment.data, segment.size);
    released[i] = failure == MYDEV_OK;
  }
  std::string message;
  if (failure != MYDEV_OK) message = device_.driver->last_error();
  lock.lock();

  for (size_t i = 0; i < victims.size(); ++i) {
    if (released[i]) {
      forget(*victims[i]);
    } else {
      put_back(std::move(victims[i]));
    }
  }
  MYDEV_CHECK(failure == MYDEV_OK, failure, "giving memory back failed on device ", device_.index, ": ", message, " [",
              code_name(failure), "]");
}

// Forgets a segment that the driver has taken back.
void DeviceMemory::forget(const Segment& segment) {
  ++stats_.num_device_free;
  detail::tell_of_memory(MemoryEventKind::kSegmentFreed, *segment.stream, segment.data, segment.size);
  count_segment(segment, -1);
  recycle(segment.first);
}

// Puts back a segment that the driver has not taken. It is free, as it was before it was offered.
void DeviceMemory::put_back(std::unique_ptr<Segment> segment) {
  Segment& kept = *segment;
  if (device_.host_accessible()) block_index::set(kept.data, kept.first);
  free_[kept.stream].of(kept.large).insert(std::move(kept.first->node));
  segments_.insert(kept.data, kept.size, std::move(segment));
}

// Keeps reserved memory below the threshold, if one is set. Called before a new segment is asked for.
void DeviceMemory::collect_garbage(Lock& lock, size_t segment_bytes) {
  const double threshold = allocator_settings().garbage_collection_threshold;
  if (threshold <= 0 || NoReclaim::active()) return;
  const auto allowed = static_cast<size_t>(threshold * static_cast<double>(limit()));
  const size_t wanted = static_cast<size_t>(stats_.reserved_bytes.all.current) + segment_bytes;
  if (wanted > allowed) release_segments(lock, wanted - allowed);
}

void DeviceMemory::empty_cache(PoolId pool) {
  const std::lock_guard reclaiming(reclaim_mutex_);
  flush_thread_caches();
  Lock lock(mutex_);
  wait_for_deferred_frees(lock);
  release_segments(lock, SIZE_MAX, pool);
}

}  // namespace mydev
