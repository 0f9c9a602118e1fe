// Copies and fills, on streams. Host memory that is not page-locked is the caller's again after the call, which waits.
// Thread-safe.
#pragma once

#include <cstdint>

#include "mydev/driver.h"

namespace mydev::cuda_driver {

mydev_code copy(mydev_stream stream, void* dst, const void* src, uint64_t bytes, mydev_copy_kind kind);
mydev_code copy_peer(mydev_stream stream, void* dst, int32_t dst_device, const void* src, int32_t src_device,
                     uint64_t bytes);
mydev_code copy_strided(mydev_stream stream, const mydev_buffer* dst, const mydev_buffer* src, mydev_copy_kind kind);
mydev_code peer_access(int32_t device, int32_t peer, int32_t* out_can);
mydev_code fill(mydev_stream stream, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes);

}  // namespace mydev::cuda_driver
