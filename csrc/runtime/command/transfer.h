// Copies and fills on a stream: the one place where they are given to the driver.
//
// Each raises the driver's refusal, with the operation, the bytes and the addresses. On an asynchronous stream the
// Python line is noted. A failure that shows later names the transfers that the stream was given since the last wait
// (Stream::collect_status). Zero bytes are no command. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>

#include "mydev/driver.h"
#include "runtime/base/api.h"
#include "runtime/stream/stream.h"

namespace mydev {

// The name of a copy in errors and hooks: "copy to the host".
MYDEV_API const char* copy_name(mydev_copy_kind kind) noexcept;

// The host's side must be pinned, or the call waits (driver.h, copy).
MYDEV_API void copy_bytes(Stream& stream, void* dst, const void* src, uint64_t bytes, mydev_copy_kind kind);
// Copies between views of one dtype and sizes. The driver must have copy_strided. Returns false, with nothing done, if
// it does not take these views.
MYDEV_API bool copy_views(Stream& stream, const mydev_buffer& dst, const mydev_buffer& src, mydev_copy_kind kind);
// Copies from src's device, which is the stream's, to another. Device::reaches must be true for the two.
MYDEV_API void copy_to_peer(Stream& stream, void* dst, const Device& dst_device, const void* src, uint64_t bytes);
// Gives the driver a transfer between members of a group of devices (its extension `collectives`), which hooks see as a
// copy of that name, a string that lives as long as the process. Returns false if the driver does not take it.
MYDEV_API bool give_collective(Stream& stream, const char* name, void* dst, const void* src, uint64_t bytes,
                               const std::function<mydev_code()>& give_to_driver);
// Repeats a pattern of 1, 2, 4, 8 or 16 bytes. The driver must have fill.
MYDEV_API void fill_bytes(Stream& stream, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes);

}  // namespace mydev
