// Copies and fills on a stream: the one place where they are given to the driver.
//
// Each raises the driver's refusal, with the operation, the bytes and the addresses. On an asynchronous stream the
// Python line is noted, and a failure that shows later names what was given to the stream since the last wait
// (Stream::collect_status). Zero bytes are no command. Thread-safe.
#pragma once

#include <cstdint>

#include "mydev/driver.h"
#include "runtime/stream/stream.h"

namespace mydev {

// What errors and hooks call a copy: "copy to the host".
const char* copy_name(mydev_copy_kind kind) noexcept;

// The host's side must be pinned, or the call waits (driver.h, copy).
void copy_bytes(Stream& stream, void* dst, const void* src, uint64_t bytes, mydev_copy_kind kind);
// Elements of one dtype and sizes. Only where the driver has copy_strided.
void copy_views(Stream& stream, const mydev_buffer& dst, const mydev_buffer& src, mydev_copy_kind kind);
// From src's device, which is the stream's, to another. Only where Device::reaches says so.
void copy_to_peer(Stream& stream, void* dst, const Device& dst_device, const void* src, uint64_t bytes);
// A pattern of 1, 2, 4, 8 or 16 bytes, repeated. Only where the driver has fill.
void fill_bytes(Stream& stream, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes);

}  // namespace mydev
