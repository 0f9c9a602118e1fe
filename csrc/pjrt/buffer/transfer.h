// Copies between the host's memory and buffers, and between buffers.
//
// On an inline device that is idle the driver copies directly. Else the host's side is staged in pinned memory, so that
// no call waits for the device. Between devices the driver copies directly, on a stream of the source, if it can. Else
// the copy goes through pinned memory: the source's queue fills it, and the destination's waits for that. Between
// processes, their connection carries it (transport/processes.h). Each function raises errors of its arguments at once.
// Failures of copies reach the completion, and through it the buffer.
#pragma once

#include "pjrt/buffer/buffer.h"
#include "pjrt/buffer/host_layout.h"

namespace mydev::pjrt {

struct HostArray {
  const void* data;
  SharedShape shape;
  std::optional<ByteStrides> strides;  // none: dense
  PJRT_HostBufferSemantics semantics;
};

struct UploadedBuffer {
  std::unique_ptr<PJRT_Buffer> buffer;
  SharedCompletion host_done;  // the host's memory is not used any more
};

UploadedBuffer upload(PJRT_Memory& memory, const HostArray& array);
// Copies `bytes` from `offset`, as they lie, or elements with strides. Returns the completion of dst.
SharedCompletion download(const PJRT_Buffer& buffer, void* dst, uint64_t offset, uint64_t bytes);
SharedCompletion download_strided(const PJRT_Buffer& buffer, void* dst, const ByteStrides& strides);
std::unique_ptr<PJRT_Buffer> copy(const PJRT_Buffer& buffer, PJRT_Memory& destination);
// Sends the buffer to a device of another process, which receives it by the same key. Returns the end of sending.
// Both raise INVALID_ARGUMENT for a device of this process.
SharedCompletion send(const PJRT_Buffer& buffer, const PJRT_Device& destination, uint64_t key);
// The device waits for it, in its order; the caller does not.
std::unique_ptr<PJRT_Buffer> receive(PJRT_Memory& memory, SharedShape shape, const PJRT_Device& source, uint64_t key);

}  // namespace mydev::pjrt
