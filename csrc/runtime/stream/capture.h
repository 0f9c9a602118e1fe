// Capturing: work that a stream is given goes to a Capture, in place of the driver, and nothing runs.
//
// Launches, copies on the device, fills and collectives are handed over; memory is allocated from the pool that the
// capture gives. Calls that would wait for the stream, or for the host, raise FAILED_PRECONDITION with the operation
// and the Python line, and the capture goes on without them. A stream that waits for an event recorded on a capturing
// one captures from then on. csrc/program/record makes a program of the captured work. Calls come from any thread that
// uses a capturing stream.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "mydev/custom_call.h"
#include "runtime/base/api.h"

namespace mydev {

struct Block;
struct CompiledLaunch;
class Stream;

class MYDEV_API Capture : public std::enable_shared_from_this<Capture> {
 public:
  virtual ~Capture() = default;
  Capture() = default;
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // The capture must not use scratch, decision and stream of the frame. `compiled` is the launch of a kernel that was
  // compiled at run time, which keeps its module; else nullptr.
  virtual void launch(Stream& stream, const mydev_kernel& kernel, const mydev_frame& frame,
                      const CompiledLaunch* compiled) = 0;
  // Views of one dtype and sizes, on the stream's device.
  virtual void copy(Stream& stream, const mydev_buffer& dst, const mydev_buffer& src) = 0;
  virtual void fill(Stream& stream, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes) = 0;
  // The part of this device in work of several. Each replay calls the function with its stream and the buffers,
  // `written` first, in the memory that the replay has for them; it gives the stream the work. Buffers in both lists
  // are updated.
  virtual void collective(Stream& stream, const std::string& name, std::span<const mydev_buffer> written,
                          std::span<const mydev_buffer> read,
                          std::function<void(Stream& stream, std::span<const mydev_buffer> buffers)> function) = 0;
  // A point in what the stream was given so far, for wait().
  virtual uint64_t mark(Stream& stream) = 0;
  // Work that the stream is given from now on comes after the point. Makes the stream capture if it does not.
  virtual void wait(Stream& stream, uint64_t point) = 0;
  // The block is used on a stream that is not its own: it is not free again before the capture has ended.
  virtual void keep(Block& block) = 0;
};

// Raises FAILED_PRECONDITION: `what` ("synchronizing the stream") cannot be captured.
[[noreturn]] MYDEV_API void raise_not_captured(const Stream& stream, const char* what);

}  // namespace mydev
