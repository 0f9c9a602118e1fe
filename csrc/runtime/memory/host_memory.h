// Host memory for copies of what lies on a device. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/base/api.h"
#include "runtime/driver/device.h"

namespace mydev {

// Ordinary memory, aligned to 64 bytes. Raises RESOURCE_EXHAUSTED.
MYDEV_API std::shared_ptr<void> host_memory(uint64_t bytes);

// Returns host memory that the device's driver copies from and to without waiting, if it has such. It is aligned to
// pages or to 64 bytes. The memory is kept for the next time, up to a limit. Raises RESOURCE_EXHAUSTED.
MYDEV_API std::shared_ptr<void> pinned_memory(const Device& device, uint64_t bytes);

}  // namespace mydev
