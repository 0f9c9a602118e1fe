#include "runtime/memory/device_memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/driver/driver_life_cycle.h"
#include "runtime/memory/allocator_settings.h"
#include "runtime/memory/block_index.h"
#include "runtime/memory/memory_events.h"
#include "runtime/memory/memory_page.h"
#include "runtime/memory/size_classes.h"
#include "runtime/memory/thread_cache.h"

namespace mydev {
namespace {

struct Memories {
  std::mutex mutex;  // guards making one
  std::array<std::atomic<DeviceMemory*>, kMaxDevices> of_device{};
};

// Never destroyed: blocks are freed until the very end of the process.
Memories& memories() {
  static Memories& instance = *new Memories;
  return instance;
}

// True if the bytes that a request leaves over are worth keeping as a chunk of their own.
bool worth_splitting(size_t left_over, bool large) noexcept {
  return large ? left_over > kSmallLimit : left_over > 0;
}

Tally tally_of(const Chunk* chunk) noexcept {
  return {1, static_cast<int64_t>(chunk->size), static_cast<int64_t>(chunk->requested)};
}

}  // namespace

DeviceMemory& DeviceMemory::of(Device& device) {
  MYDEV_CHECK(
      !in_bad_fork(), MYDEV_FAILED_PRECONDITION,
      "cannot allocate device memory in a forked process whose parent had used the device; start processes with "
      "the 'spawn' method");
  std::atomic<DeviceMemory*>& slot = memories().of_device[static_cast<size_t>(device.index)];
  if (DeviceMemory* memory = slot.load(std::memory_order_acquire)) return *memory;
  const std::lock_guard guard(memories().mutex);
  DeviceMemory* memory = slot.load(std::memory_order_relaxed);
  if (memory == nullptr) {
    memory = new DeviceMemory(device);
    slot.store(memory, std::memory_order_release);
    show_memory_page();
  }
  return *memory;
}

DeviceMemory* DeviceMemory::existing(int device) noexcept {
  if (device < 0 || device >= kMaxDevices) return nullptr;
  return memories().of_device[static_cast<size_t>(device)].load(std::memory_order_acquire);
}

void DeviceMemory::info(Device& device, uint64_t& free_bytes, uint64_t& total_bytes) {
  DeviceMemory* memory = existing(device.index);
  if (device.driver->memory_info != nullptr) {
    if (memory != nullptr) memory->return_what_is_uncached();
    check_driver(device, device.driver->memory_info(device.index, &free_bytes, &total_bytes), "asking for free memory");
    return;
  }
  const int64_t reserved = memory == nullptr ? 0 : memory->stats().reserved_bytes.all.current;
  total_bytes = device.properties.total_memory;
  free_bytes = total_bytes - std::min(total_bytes, static_cast<uint64_t>(reserved));
}

DeviceMemory::DeviceMemory(Device& device)
    : device_(device), granularity_(std::max<size_t>(kSmallGranularity, device.properties.alignment)) {
  MYDEV_CHECK(std::has_single_bit(granularity_) && granularity_ <= kSmallLimit, MYDEV_INVALID_ARGUMENT,
              "the driver asks for memory aligned to ", granularity_, " bytes; it must be a power of two and at most ",
              kSmallLimit);
}

// --- blocks ----------------------------------------------------------------------------------------------------------

size_t DeviceMemory::block_size(size_t requested) const {
  const size_t aligned = round_up(requested, granularity_);
  if (aligned <= kSmallLimit) return class_size(size_class(aligned));
  const AllocatorSettings& settings = allocator_settings();
  const auto interval = static_cast<size_t>(std::bit_width(requested) - 1 - 20);
  const size_t divisions =
      settings.roundup_power2_divisions[std::min(interval, settings.roundup_power2_divisions.size() - 1)];
  const size_t rounded = divisions > 1 ? round_up_power2(requested, divisions) : requested;
  return round_up(rounded, std::max(kLargeGranularity, granularity_));
}

Chunk* DeviceMemory::allocate(Stream& stream, size_t requested, ThreadCache* cache) {
  MYDEV_CHECK(requested <= SIZE_MAX / 4, MYDEV_RESOURCE_EXHAUSTED, "cannot allocate ", requested,
              " bytes: no device has that much memory");
  const size_t size = block_size(requested);
  Lock lock(mutex_);
  Chunk* chunk = take(lock, stream, size, requested);
  hand_out_counted(chunk, requested, cache);
  return chunk;
}

Chunk* DeviceMemory::make_unbacked(Stream& stream, void* data, size_t bytes) {
  const std::lock_guard guard(mutex_);
  Chunk* chunk = new_chunk();
  chunk->data = data;
  chunk->size = bytes;
  chunk->stream = &stream;
  chunk->size_class = -1;
  chunk->segment = nullptr;
  hand_out(chunk, bytes);
  return chunk;
}

void DeviceMemory::free(Chunk* chunk, ThreadCache* cache) noexcept {
  Lock lock(mutex_);
  chunk->references.store(0, std::memory_order_relaxed);
  if (chunk->segment == nullptr) {
    chunk->users.reset();
    recycle(chunk);
    return;
  }
  count_activity_of(cache);
  const bool large = chunk->segment->large;
  const Tally tally = tally_of(chunk);
  if (chunk->size >= allocator_settings().max_split_size) {
    ++stats_.oversize_allocations.freed;
    --stats_.oversize_allocations.current;
  }
  const bool used_elsewhere = chunk->users != nullptr;
  defer_free(chunk);
  count_freed(large, tally);
  if (chunk->state != Chunk::State::kDeferred) {
    if (used_elsewhere) {
      detail::tell_of_memory(MemoryEventKind::kFreeCompleted, *chunk->stream, chunk->data, chunk->size);
    }
    count_inactive(large, tally);
    const bool cached = chunk->segment->cached;
    retire(chunk);
    if (!cached) return_uncached(lock);
  }
}

void DeviceMemory::record_stream(Chunk* chunk, Stream& stream) {
  if (chunk->segment == nullptr || &stream == chunk->stream) return;
  // The key of a pool is another name of its stream.
  if (chunk->stream->keeps_memory() && chunk->stream->handle() == stream.handle() && stream.id() == chunk->stream->id())
    return;
  const std::lock_guard guard(mutex_);
  if (chunk->users == nullptr) chunk->users = std::make_unique<std::vector<Stream*>>();
  if (std::find(chunk->users->begin(), chunk->users->end(), &stream) == chunk->users->end()) {
    chunk->users->push_back(&stream);
  }
}

Chunk* DeviceMemory::take_for_cache(Stream& stream, int size_class, size_t count) {
  Lock lock(mutex_);
  const size_t size = class_size(size_class);
  Chunk* first = take(lock, stream, size, size);
  first->next_cached = nullptr;
  for (size_t i = 1; i < count; ++i) {
    Chunk* chunk = take_free(stream, size);
    if (chunk == nullptr) break;
    chunk->next_cached = first->next_cached;
    first->next_cached = chunk;
  }
  return first;
}

void DeviceMemory::return_from_cache(Chunk* chain) noexcept {
  const std::lock_guard guard(mutex_);
  while (chain != nullptr) {
    Chunk* next = chain->next_cached;
    put_free(chain);
    chain = next;
  }
}

// --- chunks and segments ---------------------------------------------------------------------------------------------

Chunk* DeviceMemory::new_chunk() {
  if (recycled_ == nullptr) {
    Chunk* chunk = &chunks_.emplace_back();
    FreeChunks maker;
    chunk->node = maker.extract(maker.insert(chunk).first);
    return chunk;
  }
  Chunk* chunk = recycled_;
  recycled_ = chunk->next_cached;
  return chunk;
}

// Gives the user a chunk that did not come from a thread's cache.
void DeviceMemory::hand_out_counted(Chunk* chunk, size_t requested, ThreadCache* cache) noexcept {
  count_activity_of(cache);
  hand_out(chunk, requested);
  count_allocated(chunk->segment->large, tally_of(chunk));
  if (chunk->size >= allocator_settings().max_split_size) {
    ++stats_.oversize_allocations.allocated;
    stats_.oversize_allocations.peak =
        std::max(stats_.oversize_allocations.peak, ++stats_.oversize_allocations.current);
  }
}

void DeviceMemory::recycle(Chunk* chunk) noexcept {
  chunk->next_cached = recycled_;
  recycled_ = chunk;
}

// mark_free and mark_out keep the segment's figures, and those of inactive split memory, for a chunk that becomes or
// ceases to be free. A segment's share counts only while it is split, so it is taken out and put back around changes.
namespace {
void add_share(Tally& total, const Segment& segment, int sign) noexcept {
  if (!segment.split()) return;
  total.count += sign * static_cast<int64_t>(segment.free_chunks);
  total.bytes += sign * static_cast<int64_t>(segment.free_bytes);
}
}  // namespace

void DeviceMemory::mark_free(Chunk* chunk) noexcept {
  Segment& segment = *chunk->segment;
  add_share(free_split_[segment.large], segment, -1);
  if (!segment.large) {
    --small_out_.count;
    small_out_.bytes -= static_cast<int64_t>(chunk->size);
  }
  ++segment.free_chunks;
  segment.free_bytes += chunk->size;
  chunk->state = Chunk::State::kFree;
  add_share(free_split_[segment.large], segment, +1);
}

void DeviceMemory::mark_out(Chunk* chunk) noexcept {
  Segment& segment = *chunk->segment;
  add_share(free_split_[segment.large], segment, -1);
  if (!segment.large) {
    ++small_out_.count;
    small_out_.bytes += static_cast<int64_t>(chunk->size);
  }
  --segment.free_chunks;
  segment.free_bytes -= chunk->size;
  segment.last_use = ++tick_;
  chunk->state = Chunk::State::kOut;
  add_share(free_split_[segment.large], segment, +1);
}

// The best fitting free chunk of the stream, cut to size and marked out; nullptr if there is none.
Chunk* DeviceMemory::take_free(Stream& stream, size_t size) {
  const bool large = size > kSmallLimit;
  FreeChunks& chunks = free_[&stream].of(large);
  const auto best = chunks.lower_bound(size);
  if (best == chunks.end()) return nullptr;
  Chunk* chunk = *best;
  if (large) {
    const AllocatorSettings& settings = allocator_settings();
    const bool oversize = chunk->size > settings.max_split_size;
    if (oversize && (size <= settings.max_split_size || chunk->size >= size + settings.max_non_split_rounding)) {
      return nullptr;
    }
  }
  chunk->node = chunks.extract(best);
  chunk = cut(chunk, size);
  mark_out(chunk);
  return chunk;
}

// Leaves `size` bytes in the chunk and makes a free chunk of the remainder, if that is worth it. The chunk is free but
// in no set.
Chunk* DeviceMemory::cut(Chunk* chunk, size_t size) {
  Segment& segment = *chunk->segment;
  chunk->size_class = segment.large ? -1 : size_class(size);
  if (!worth_splitting(chunk->size - size, segment.large) || chunk->size > allocator_settings().max_split_size) {
    return chunk;
  }
  Chunk* remainder = new_chunk();
  remainder->data = static_cast<char*>(chunk->data) + size;
  remainder->size = chunk->size - size;
  remainder->stream = chunk->stream;
  remainder->size_class = -1;
  remainder->segment = &segment;
  remainder->state = Chunk::State::kFree;
  remainder->previous = chunk;
  remainder->next = chunk->next;
  if (remainder->next != nullptr) remainder->next->previous = remainder;
  if (device_.host_accessible()) block_index::set(remainder->data, remainder);
  add_share(free_split_[segment.large], segment, -1);
  chunk->next = remainder;
  chunk->size = size;
  ++segment.chunks;
  ++segment.free_chunks;
  add_share(free_split_[segment.large], segment, +1);
  free_[remainder->stream].of(segment.large).insert(std::move(remainder->node));
  return chunk;
}

// Marks the chunk free, merges it with free neighbours and puts the result into the stream's set.
void DeviceMemory::put_free(Chunk* chunk) noexcept {
  mark_free(chunk);
  FreeChunks& chunks = free_[chunk->stream].of(chunk->segment->large);
  if (Chunk* previous = chunk->previous; previous != nullptr && previous->state == Chunk::State::kFree) {
    previous->node = chunks.extract(previous);
    absorb(previous, chunk);
    chunk = previous;
  }
  if (Chunk* next = chunk->next; next != nullptr && next->state == Chunk::State::kFree) {
    next->node = chunks.extract(next);
    absorb(chunk, next);
  }
  chunk->size_class = -1;
  chunks.insert(std::move(chunk->node));
}

// Both are free and in no set; `follower` is the chunk's neighbour at higher addresses.
void DeviceMemory::absorb(Chunk* chunk, Chunk* follower) noexcept {
  Segment& segment = *chunk->segment;
  add_share(free_split_[segment.large], segment, -1);
  chunk->size += follower->size;
  chunk->next = follower->next;
  if (chunk->next != nullptr) chunk->next->previous = chunk;
  --segment.chunks;
  --segment.free_chunks;
  add_share(free_split_[segment.large], segment, +1);
  if (device_.host_accessible()) block_index::clear(follower->data);
  recycle(follower);
}

size_t DeviceMemory::limit() const noexcept {
  return static_cast<size_t>(fraction_ * static_cast<double>(device_.properties.total_memory));
}

// nullptr when the limit or the driver does not allow it.
Chunk* DeviceMemory::take_from_new_segment(Stream& stream, size_t size, size_t segment_bytes) {
  if (static_cast<size_t>(stats_.reserved_bytes.all.current) + segment_bytes > limit()) return nullptr;
  void* data = nullptr;
  const mydev_code code = device_.driver->memory_alloc(device_.index, segment_bytes, &data);
  ++stats_.num_device_alloc;
  if (code == MYDEV_RESOURCE_EXHAUSTED) return nullptr;
  check_driver(device_, code, "allocating memory");

  Chunk* chunk = new_chunk();
  auto segment = std::make_unique<Segment>();
  *segment = {.data = data,
              .size = segment_bytes,
              .stream = &stream,
              .pool = pool_of_key(stream),
              .large = size > kSmallLimit,
              .cached = true,
              .first = chunk,
              .chunks = 1,
              .free_chunks = 1,
              .free_bytes = segment_bytes,
              .last_use = ++tick_};
  chunk->data = data;
  chunk->size = segment_bytes;
  chunk->stream = &stream;
  chunk->segment = segment.get();
  chunk->previous = chunk->next = nullptr;
  chunk->state = Chunk::State::kFree;
  if (device_.host_accessible()) block_index::set(data, chunk);
  detail::tell_of_memory(MemoryEventKind::kSegmentAllocated, stream, data, segment_bytes);
  count_segment(*segment, +1);
  segments_.insert(data, segment_bytes, std::move(segment));
  chunk = cut(chunk, size);
  mark_out(chunk);
  return chunk;
}

bool DeviceMemory::has_segments(const Stream& key) {
  const std::lock_guard guard(mutex_);
  return std::any_of(segments_.begin(), segments_.end(),
                     [&](const auto& entry) { return entry.second.value->stream == &key; });
}

bool DeviceMemory::contains(const void* data) {
  const std::lock_guard guard(mutex_);
  return segments_.contains(data);
}

Chunk* DeviceMemory::live_chunk_at(const void* data) {
  const std::lock_guard guard(mutex_);
  const auto found = segments_.find(reinterpret_cast<uintptr_t>(data));
  if (found == segments_.end()) return nullptr;
  Chunk* chunk = found->second.value->first;
  while (chunk->next != nullptr && std::less_equal<>()(chunk->next->data, data)) chunk = chunk->next;
  return chunk->references.load(std::memory_order_acquire) > 0 ? chunk : nullptr;
}

void DeviceMemory::set_memory_fraction(double fraction) {
  const std::lock_guard guard(mutex_);
  fraction_ = fraction;
}

double DeviceMemory::memory_fraction() {
  const std::lock_guard guard(mutex_);
  return fraction_;
}

}  // namespace mydev
