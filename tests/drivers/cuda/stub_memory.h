// Settings of cuda_stub, and its devices' memory, which is the host's.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "cuda_driver/library/cuda_api.h"

using StubPointer = mydev::cuda_driver::DevicePointer;

inline int64_t setting(const char* name, int64_t otherwise) {
  const char* given = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return given == nullptr ? otherwise : std::atoll(given);
}

// The result that CUDA_STUB_FAIL gives the entry.
inline int forced(const char* entry) {
  const char* given = std::getenv("CUDA_STUB_FAIL");  // NOLINT(concurrency-mt-unsafe)
  const size_t length = std::strlen(entry);
  if (given == nullptr || std::strncmp(given, entry, length) != 0 || given[length] != ':')
    return mydev::cuda_driver::kSuccess;
  return std::atoi(given + length + 1);
}

// --- contexts, memory ------------------------------------------------------------------------------------------------

struct StubContext {
  int ordinal;
  uint64_t used = 0;
};
inline std::array<StubContext, 8> contexts = {StubContext{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};
inline thread_local StubContext* current = nullptr;
inline const int num_devices = static_cast<int>(setting("CUDA_STUB_DEVICES", 2));
inline const auto memory_bytes = static_cast<uint64_t>(setting("CUDA_STUB_MEMORY", 256 << 20));

struct Allocation {
  uint64_t bytes;
  int device;  // -1: page-locked memory of the host
};
inline std::mutex memory_mutex;
inline std::map<StubPointer, Allocation> allocations;

// The allocation that holds all these bytes.
inline std::pair<StubPointer, Allocation> allocation_of(StubPointer pointer, uint64_t bytes) {
  const std::lock_guard lock(memory_mutex);
  const auto next = allocations.upper_bound(pointer);
  if (next == allocations.begin()) return {0, {0, -2}};
  const auto& [begin, found] = *std::prev(next);
  return pointer - begin < found.bytes && pointer - begin + bytes <= found.bytes ? std::pair(begin, found)
                                                                                 : std::pair(begin, Allocation{0, -2});
}
inline bool on_device(StubPointer pointer, uint64_t bytes) {
  return allocation_of(pointer, bytes).second.device >= 0;
}
inline char* at(StubPointer pointer) {
  return reinterpret_cast<char*>(pointer);
}
