#include "aten/memory/device_allocator.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/core/impl/COW.h>

#include <algorithm>
#include <functional>

#include "aten/core/device_type.h"
#include "aten/memory/block_alias.h"
#include "aten/memory/shared_storage.h"
#include "aten/memory/storage.h"
#include "runtime/command/transfer.h"
#include "runtime/driver/driver_life_cycle.h"
#include "runtime/memory/pool_figures.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

// --- settings --------------------------------------------------------------------------------------------------------

using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;

void apply_allocator_config() {
  AllocatorSettings settings;
  settings.medium_segment_size = Config::large_segment_size();
  settings.max_split_size = Config::max_split_size();
  settings.max_non_split_rounding = Config::max_non_split_rounding_size();
  settings.garbage_collection_threshold = Config::garbage_collection_threshold();
  const std::vector<size_t>& divisions = Config::roundup_power2_divisions();
  std::copy_n(divisions.begin(), std::min(divisions.size(), settings.roundup_power2_divisions.size()),
              settings.roundup_power2_divisions.begin());
  set_allocator_settings(settings);
  if (Config::use_expandable_segments()) {
    TORCH_WARN_ONCE("expandable_segments is not supported on ", kDeviceType, " and has no effect there");
  }
}

// PYTORCH_ALLOC_CONF is read at the first allocation, so that a mistake in it is reported to the caller and not to the
// import; later changes come through the hook. Other devices' hook, if any, keeps working.
[[maybe_unused]] const bool hook_registered = [] {
  auto others = Config::getConfigParserHook();
  Config::registerDeviceConfigParserHook(
      [others = std::move(others)](const std::string& text) {
        if (others) others(text);
        apply_allocator_config();
      },
      {});
  return true;
}();

void apply_environment_once() {
  static const bool applied = [] {
    apply_allocator_config();
    return true;
  }();
  static_cast<void>(applied);
}

// --- memory ----------------------------------------------------------------------------------------------------------

// Tells the profiler of the calling thread; called only while there is one that wants to know.
[[gnu::cold]] [[gnu::noinline]] void report_to_profiler(const Block& block, int64_t bytes) {
  const int device = block.stream->device().index;
  const AllocatorStats stats = allocator_stats(device);
  c10::reportMemoryUsageToProfiler(block.data, bytes, static_cast<size_t>(stats.allocated_bytes.all.current),
                                   static_cast<size_t>(stats.reserved_bytes.all.current), torch_device(device));
}

void delete_device_data(void* context) {
  Block& block = *static_cast<Block*>(context);
  if (C10_UNLIKELY(c10::memoryProfilingEnabled())) report_to_profiler(block, -static_cast<int64_t>(block.size));
  release_cached_alias(block);
  release(block);
}

c10::CachingAllocator::StatArray convert(const PoolStats& pools) {
  const auto convert_one = [](const Stat& stat) {
    c10::CachingAllocator::Stat converted;
    converted.current = stat.current;
    converted.peak = stat.peak;
    converted.allocated = stat.allocated;
    converted.freed = stat.freed;
    return converted;
  };
  return {convert_one(pools.all), convert_one(pools.small_pool), convert_one(pools.large_pool)};
}

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override { return allocate_device_memory(current_device(), bytes); }
  void copy_data(void* dst, const void* src, size_t bytes) const override {
    copy_bytes(current_stream(current_device()), dst, src, bytes, MYDEV_COPY_DEVICE_TO_DEVICE);
  }

  bool initialized() override { return driver_loaded(); }
  // {0, 0}: all that no live pool keeps; else what is left of one pool that is gone.
  void emptyCache(c10::MempoolId_t pool) override {
    if (!driver_loaded()) return;
    if (pool != c10::MempoolId_t{0, 0}) return empty_cache_of_pool(pool);
    for (int device = 0; device < device_count(); ++device) empty_cache(device);
    collect_shared_storages();
  }
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    Block* block = is_device_memory(data)                  ? static_cast<Block*>(data.get_context())
                   : c10::impl::cow::is_cow_data_ptr(data) ? find_block(data.get())
                                                           : nullptr;
    if (block == nullptr) return;  // not the allocator's to reuse
    record_stream(*block, stream_by_id(stream.device_index(), stream.id()));
  }

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const AllocatorStats stats = allocator_stats(device);
    c10::CachingDeviceAllocator::DeviceStats converted;
    converted.allocation = convert(stats.allocation);
    converted.segment = convert(stats.segment);
    converted.active = convert(stats.active);
    converted.inactive_split = convert(stats.inactive_split);
    converted.allocated_bytes = convert(stats.allocated_bytes);
    converted.reserved_bytes = convert(stats.reserved_bytes);
    for (const auto& [pool, reserved] : reserved_by_pool(device)) {
      converted.reserved_bytes_by_private_pools.emplace(pool, convert(reserved));
    }
    converted.active_bytes = convert(stats.active_bytes);
    converted.inactive_split_bytes = convert(stats.inactive_split_bytes);
    converted.requested_bytes = convert(stats.requested_bytes);
    converted.oversize_allocations =
        convert({.all = stats.oversize_allocations, .small_pool = {}, .large_pool = {}})[0];
    converted.oversize_segments = convert({.all = stats.oversize_segments, .small_pool = {}, .large_pool = {}})[0];
    converted.num_alloc_retries = stats.num_alloc_retries;
    converted.num_ooms = stats.num_ooms;
    converted.num_sync_all_streams = stats.num_sync_all_streams;
    converted.num_device_alloc = stats.num_device_alloc;
    converted.num_device_free = stats.num_device_free;
    converted.max_split_size = static_cast<int64_t>(allocator_settings().max_split_size);
    return converted;
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override { reset_accumulated_stats(device); }
  void resetPeakStats(c10::DeviceIndex device) override { reset_peak_stats(device); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    memory_info(device, free_bytes, total_bytes);
    return {free_bytes, total_bytes};
  }
};

Allocator allocator;
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &allocator);

}  // namespace

c10::DeviceAllocator* device_allocator() noexcept {
  return &allocator;
}

c10::DataPtr allocate_device_memory(int device, size_t bytes) {
  return allocate_device_memory(current_stream(device), bytes);
}

c10::DataPtr allocate_device_memory(Stream& stream, size_t bytes) {
  apply_environment_once();
  Block& block = *allocate(stream, bytes);
  if (C10_UNLIKELY(c10::memoryProfilingEnabled())) report_to_profiler(block, static_cast<int64_t>(block.size));
  return device_data_ptr(block, stream.device().index);
}

c10::DataPtr device_data_ptr(Block& block, int device) noexcept {
  return {block.data, &block, &delete_device_data, torch_device(device)};
}

bool is_device_memory(const c10::DataPtr& data) noexcept {
  return data.get_deleter() == &delete_device_data;
}

Block* block_of(const c10::StorageImpl& storage) noexcept {
  const c10::DataPtr& data = storage.data_ptr();
  return is_device_memory(data) ? static_cast<Block*>(data.get_context()) : nullptr;
}

}  // namespace mydev
