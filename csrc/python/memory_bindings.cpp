// Memory: the functions that torch.mydev has beyond torch.accelerator.memory. Snapshot, limits, raw allocations, pinned
// memory.
#include <ATen/core/CachingHostAllocator.h>
#include <pybind11/stl.h>

#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "aten/core/device_type.h"
#include "aten/memory/device_allocator.h"
#include "python/bindings.h"
#include "runtime/base/status.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/memory/caching_switch.h"
#include "runtime/memory/pool_figures.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

// Blocks that Python holds by their address. An address says which device it is on only where devices share an address
// space; on others two devices may use the same one, and the second is refused.
class RawAllocations {
 public:
  uintptr_t allocate(int device, int64_t stream_id, int64_t bytes) {
    MYDEV_CHECK(bytes >= 0, MYDEV_INVALID_ARGUMENT, "cannot allocate ", bytes, " bytes");
    c10::DataPtr memory = allocate_device_memory(stream_by_id(device, stream_id), static_cast<size_t>(bytes));
    const auto address = reinterpret_cast<uintptr_t>(memory.get());
    if (address == 0) return 0;
    const std::lock_guard guard(mutex_);
    const bool added = live_.try_emplace(address, std::move(memory)).second;
    MYDEV_CHECK(added, MYDEV_UNIMPLEMENTED, "address ", address,
                " is in use on another device whose addresses overlap; allocate a tensor instead");
    return address;
  }
  void free(uintptr_t address) {
    if (address == 0) return;
    c10::DataPtr memory;  // freed after the lock
    const std::lock_guard guard(mutex_);
    const auto found = live_.find(address);
    MYDEV_CHECK(found != live_.end(), MYDEV_INVALID_ARGUMENT, "address ", address,
                " is not one that caching_allocator_alloc returned, or it has been deleted already");
    memory = std::move(found->second);
    live_.erase(found);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<uintptr_t, c10::DataPtr> live_;
};

RawAllocations& raw_allocations() {
  static RawAllocations& instance = *new RawAllocations;  // like the allocator, it outlives everything
  return instance;
}

const char* state_name(BlockSnapshot::State state) {
  switch (state) {
    case BlockSnapshot::State::kActiveAllocated:
      return "active_allocated";
    case BlockSnapshot::State::kActiveAwaitingFree:
      return "active_awaiting_free";
    case BlockSnapshot::State::kInactive:
      break;
  }
  return "inactive";
}

// In the form of torch.cuda.memory_snapshot().
pybind11::list describe_snapshot() {
  std::vector<SegmentSnapshot> snapshot;
  std::map<int, std::map<uintptr_t, PoolId>> pools_of;  // by device
  {
    const pybind11::gil_scoped_release no_gil;
    snapshot = memory_snapshot();
    for (const SegmentSnapshot& s : snapshot) {
      if (!pools_of.contains(s.device)) pools_of[s.device] = segments_of_pools(s.device);
    }
  }
  pybind11::list segments;
  for (const SegmentSnapshot& s : snapshot) {
    pybind11::list blocks;
    for (const BlockSnapshot& b : s.blocks) {
      pybind11::dict block;
      block["address"] = b.address;
      block["size"] = b.size;
      block["requested_size"] = b.requested;
      block["state"] = state_name(b.state);
      blocks.append(std::move(block));
    }
    pybind11::dict segment;
    segment["device"] = s.device;
    segment["address"] = s.address;
    segment["total_size"] = s.total_size;
    segment["allocated_size"] = s.allocated_size;
    segment["active_size"] = s.active_size;
    segment["requested_size"] = s.requested_size;
    segment["stream"] = s.stream_id;
    const auto& pools = pools_of[s.device];
    const auto pool = pools.find(s.address);
    segment["segment_pool_id"] = pool == pools.end() ? PoolId{} : pool->second;
    segment["segment_type"] = s.is_large ? "large" : "small";
    segment["is_expandable"] = false;
    segment["blocks"] = std::move(blocks);
    segments.append(std::move(segment));
  }
  return segments;
}

pybind11::dict describe(const c10::CachingAllocator::Stat& stat) {
  pybind11::dict result;
  result["current"] = stat.current;
  result["peak"] = stat.peak;
  result["allocated"] = stat.allocated;
  result["freed"] = stat.freed;
  return result;
}

// By the pool's id: "all.current" and so on.
std::map<PoolId, std::map<std::string, int64_t>> describe_pools(int device) {
  std::map<PoolId, std::map<std::string, int64_t>> described;
  for (const auto& [pool, reserved] : reserved_by_pool(device)) {
    auto& figures = described[pool];
    for (const auto& [name, stat] : {std::pair<std::string, Stat>{"all", reserved.all},
                                     {"small_pool", reserved.small_pool},
                                     {"large_pool", reserved.large_pool}}) {
      figures[name + ".current"] = stat.current;
      figures[name + ".peak"] = stat.peak;
      figures[name + ".allocated"] = stat.allocated;
      figures[name + ".freed"] = stat.freed;
    }
  }
  return described;
}

at::HostAllocator& host_allocator() {
  return *at::getHostAllocator(kDeviceType);
}

pybind11::dict describe_host_memory() {
  const at::HostStats stats = host_allocator().get_stats();
  pybind11::dict result;
  result["active_requests"] = describe(stats.active_requests);
  result["active_bytes"] = describe(stats.active_bytes);
  result["allocations"] = describe(stats.allocations);
  result["allocated_bytes"] = describe(stats.allocated_bytes);
  result["num_host_alloc"] = stats.num_host_alloc;
  result["num_host_free"] = stats.num_host_free;
  return result;
}

}  // namespace

void bind_memory(pybind11::module_& m) {
  m.def("memory_snapshot", wrap_pybind_function(describe_snapshot));
  m.def("reserved_by_pool", wrap_pybind_function_no_gil(describe_pools));
  m.def("set_memory_fraction", wrap_pybind_function_no_gil(set_memory_fraction));
  m.def("memory_fraction", wrap_pybind_function_no_gil(memory_fraction));
  m.def("empty_cache", wrap_pybind_function_no_gil([] { device_allocator()->emptyCache(); }));
  m.def("set_memory_caching", set_memory_caching);
  m.def("memory_cached", memory_cached);
  m.def("raw_alloc", wrap_pybind_function_no_gil([](int device, int64_t stream_id, int64_t bytes) {
          return raw_allocations().allocate(device, stream_id, bytes);
        }));
  m.def("raw_delete", wrap_pybind_function_no_gil([](uintptr_t address) { raw_allocations().free(address); }));
  m.def("host_memory_stats", wrap_pybind_function(describe_host_memory));
  m.def("reset_accumulated_host_memory_stats",
        wrap_pybind_function_no_gil([] { host_allocator().reset_accumulated_stats(); }));
  m.def("reset_peak_host_memory_stats", wrap_pybind_function_no_gil([] { host_allocator().reset_peak_stats(); }));
}

}  // namespace mydev
