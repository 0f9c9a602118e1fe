// Device storages over memory that processes share: the memory of a CPU storage from torch's own shared-memory files.
//
// Policy. Only where the driver has UNIFIED_MEMORY: its kernels then take such memory as they take the device's own. A
// shared storage owns the CPU storage, by which torch sends it to other processes, and is never resized. It is not the
// allocator's: it counts towards no statistics and no limit, and guarded devices do not guard it. When the last tensor
// on it dies, the memory is freed at once if the device is idle. Else the free is deferred until every stream has
// passed that point. It is then done when shared storages are next made or dropped, or by collect_shared_storages().
// The system counts the mappings: memory lives as long as any process has it. Thread-safe, but for sharing a storage
// that others are using.
#pragma once

#include <c10/core/Storage.h>

#include "runtime/base/api.h"

namespace mydev {

// Moves the storage's data into `host`, a CPU storage in shared memory with as many bytes. Waits for the device first.
// Tensors on the storage see the move; aliases made before keep the old memory. Does nothing for a shared storage.
MYDEV_API void move_to_shared_memory(const c10::Storage& storage, c10::Storage host);

// A storage of the device over `host`, whose memory came from another process.
MYDEV_API c10::Storage storage_over_shared_memory(c10::Storage host, int device_index);

// The CPU storage behind a shared storage; null for any other.
MYDEV_API c10::Storage shared_host_storage(const c10::Storage& storage);

// Does the deferred frees whose streams have passed.
void collect_shared_storages();

}  // namespace mydev
