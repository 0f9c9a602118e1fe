// Copy-on-write storages of the device: memory that torch._lazy_clone() shares until one of its tensors is written.
//
// Policy. They are PyTorch's own, over the allocator's memory. The first mutable access of one makes its memory its
// own: a copy, or for the last that shares it the memory itself. Since readers and writers may be on any stream, that
// waits for an asynchronous device. Storages that share memory may be used by several threads, as separate ones may.
#pragma once

#include <c10/core/StorageImpl.h>

namespace mydev {

// A storage that shares the memory of `storage` until either is written; a copy of memory that is not the allocator's.
c10::intrusive_ptr<c10::StorageImpl> lazy_clone_storage(c10::StorageImpl& storage);

}  // namespace mydev
