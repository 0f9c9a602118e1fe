// Page-locked host memory: buffer objects of the host's that are mapped as long as they live. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "opencl_driver/memory/address_table.h"
#include "opencl_driver/platform/platform.h"

namespace mydev::opencl_driver {

class PinnedMemory {
 public:
  struct Mapped {
    cl_mem buffer;
    void* data;  // of the mapping; the memory begins at the next page
  };

  explicit PinnedMemory(const Platform& platform) : platform_(platform) {}

  void* allocate(uint64_t bytes);
  void free(void* data);  // raises INVALID_ARGUMENT for what allocate did not give
  std::optional<AddressTable<Mapped>::Entry> find(const void* data, uint64_t bytes) const {
    return table_.find(data, bytes);
  }

 private:
  const Platform& platform_;
  AddressTable<Mapped> table_;
};

}  // namespace mydev::opencl_driver
