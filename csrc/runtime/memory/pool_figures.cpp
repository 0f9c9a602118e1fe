#include "runtime/memory/pool_figures.h"

#include "runtime/memory/device_memory.h"

namespace mydev {

std::map<PoolId, PoolStats> reserved_by_pool(int device) {
  DeviceMemory* memory = DeviceMemory::existing(device);
  return memory == nullptr ? std::map<PoolId, PoolStats>{} : memory->reserved_by_pool();
}

std::map<uintptr_t, PoolId> segments_of_pools(int device) {
  DeviceMemory* memory = DeviceMemory::existing(device);
  return memory == nullptr ? std::map<uintptr_t, PoolId>{} : memory->segments_of_pools();
}

void empty_cache_of_pool(PoolId pool) {
  for (int device = 0; device < kMaxDevices; ++device) {
    if (DeviceMemory* memory = DeviceMemory::existing(device)) memory->empty_cache(pool);
  }
}

}  // namespace mydev
