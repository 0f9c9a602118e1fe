// The streams of the process: how to find one, and which is current.
//
// Policy, as in torch.cuda: each device has a default stream (id 0) and two pools of kPoolSize streams, low and high
// priority, handed out round-robin and never destroyed; staging_stream.h has one more. External streams wrap a driver's
// handle until released. The current stream is thread-local per device and starts as the default stream. Streams are
// made at first use, and at exit their work is waited for. Thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/api.h"
#include "runtime/base/thread_state.h"
#include "runtime/stream/stream.h"

namespace mydev {

inline constexpr int kPoolSize = 32;

namespace detail {
MYDEV_API Stream& look_up_current_stream(int device);
}  // namespace detail

MYDEV_API Stream& default_stream(int device);
inline Stream& current_stream(int device) {
  if (static_cast<unsigned>(device) < unsigned{kMaxDevices}) [[likely]] {
    if (Stream* stream = detail::thread_state->current_streams[static_cast<unsigned>(device)]) [[likely]] {
      return *stream;
    }
  }
  return detail::look_up_current_stream(device);
}
MYDEV_API Stream& exchange_current_stream(Stream& stream);  // of its device; returns the previous
// priority < 0: high pool; else low pool.
MYDEV_API Stream& stream_from_pool(int device, int priority);
// Raises INVALID_ARGUMENT for an id that names no stream, or one that was released.
MYDEV_API Stream& stream_by_id(int device, int64_t id);
MYDEV_API Stream& register_external_stream(int device, mydev_stream handle);
// The stream of a frame that a record enqueues (MYDEV_RUNS_HOST_ENQUEUE). Raises INVALID_ARGUMENT if none of the
// device's has the handle.
MYDEV_API Stream& stream_by_handle(int device, mydev_stream handle);
// Its id names no stream from now on, and using it raises FAILED_PRECONDITION; the handle stays its owner's.
MYDEV_API void release_external_stream(Stream& stream);
// Streams of the device that have been used, in order of id.
MYDEV_API std::vector<Stream*> existing_streams(int device);

// Waits for all streams of the device; raises the sticky error of any (and clears it).
MYDEV_API void synchronize_device(Device& device);

// Waits for all streams of all devices, and leaves their errors: for the end of the process.
MYDEV_API void wait_for_streams() noexcept;
// Makes the end of the process wait for streams before it runs the exit handlers and static destructors that exist by
// now. Called at the first stream, and after loading a library whose code streams run.
MYDEV_API void wait_for_streams_at_exit();

}  // namespace mydev
