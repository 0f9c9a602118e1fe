// c10's view of the caching allocator: memory of device tensors.
//
// The DataPtr of device memory holds the runtime's Block as its context. Thread-safe.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Storage.h>

#include <utility>

#include "runtime/base/api.h"
#include "runtime/memory/caching_allocator.h"

namespace mydev {

MYDEV_API c10::DeviceAllocator* device_allocator() noexcept;

// Memory on a device, for its current stream or a given one. Raises torch.OutOfMemoryError.
MYDEV_API c10::DataPtr allocate_device_memory(int device, size_t bytes);
MYDEV_API c10::DataPtr allocate_device_memory(Stream& stream, size_t bytes);

// A DataPtr over a block; takes ownership of one reference.
MYDEV_API c10::DataPtr device_data_ptr(Block& block, int device) noexcept;

// True if the context of `data` is a Block of ours.
bool is_device_memory(const c10::DataPtr& data) noexcept;

// The block behind a device storage; nullptr if its memory is not from the allocator (from_blob).
MYDEV_API Block* block_of(const c10::StorageImpl& storage) noexcept;

// A resizable storage over device memory.
inline c10::Storage device_storage(c10::DataPtr data, size_t bytes) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, std::move(data),
                                                            device_allocator(), /*resizable=*/true));
}

}  // namespace mydev
