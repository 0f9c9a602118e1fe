// Memory of devices, and page-locked memory of the host. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "mydev/driver.h"

namespace mydev::cuda_driver {

mydev_code memory_alloc(int32_t device, uint64_t bytes, void** out_data);
mydev_code memory_free(int32_t device, void* data, uint64_t bytes);
mydev_code memory_info(int32_t device, uint64_t* out_free, uint64_t* out_total);
mydev_code host_alloc(uint64_t bytes, void** out_data);
mydev_code host_free(void* data, uint64_t bytes);
mydev_code host_register(void* data, uint64_t bytes);
mydev_code host_unregister(void* data, uint64_t bytes);
mydev_code pointer_info(const void* pointer, mydev_pointer_info* out);

struct PinnedMemoryDeleter {
  void operator()(uint32_t* words) const { host_free(words, 0); }
};
// Page-locked memory that kernels reach under the same address, of zeros.
using PinnedWords = std::unique_ptr<uint32_t[], PinnedMemoryDeleter>;
PinnedWords make_pinned_words(size_t count);
// Whether page-locked memory of this driver's holds the address.
bool is_pinned(const void* pointer);

}  // namespace mydev::cuda_driver
