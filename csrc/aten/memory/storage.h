// Device storages: tensors over them, and moving bytes in and out. Copies are ordered on the current stream of the
// device.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include "runtime/base/api.h"
#include "runtime/stream/stream.h"

namespace mydev {

// A tensor over `storage`, for the device or the CPU by its dispatch key, that lies like another (sizes, strides,
// offset, conj and neg bits).
MYDEV_API at::Tensor tensor_over(c10::Storage storage, c10::DispatchKey key, const c10::TensorImpl& like);

// Gives the storage `bytes` bytes, keeping what fits. Raises if it is not resizable.
void resize_storage(c10::StorageImpl& storage, size_t bytes);

// Copies through the driver and waits; bytes may be 0. The other directions are copy_bytes
// (runtime/command/transfer.h).
void copy_to_host(void* dst, const void* src, size_t bytes, Stream& stream);

}  // namespace mydev
