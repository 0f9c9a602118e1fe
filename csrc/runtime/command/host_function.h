// Host functions: code of the user that a stream calls on the host, in the stream's order, and at each replay.
//
// Other host calls of the runtime (host_work.h) stand for something that happens once. Host functions may be steps of a
// captured program, if the capture takes them. Thread-safe.
#pragma once

#include <functional>
#include <string>

#include "runtime/base/api.h"
#include "runtime/stream/stream.h"

namespace mydev {

// A Capture that may take host functions.
class MYDEV_API HostFunctionCapture {
 public:
  HostFunctionCapture() = default;
  virtual ~HostFunctionCapture() = default;
  HostFunctionCapture(const HostFunctionCapture&) = delete;
  HostFunctionCapture& operator=(const HostFunctionCapture&) = delete;

  // False: it refuses them, as a strict capture does.
  virtual bool host_function(Stream& stream, const std::string& name, std::function<void()> function) = 0;
};

// Calls the function once all work given so far is done, and holds up later work until it returns. An exception of the
// function becomes the stream's error, with `name`, which lives as long as the process, and the Python line. The
// function may give work to the device but must not wait for any. In a capture that takes host functions it becomes a
// step, which runs at each replay; other captures raise FAILED_PRECONDITION at once.
MYDEV_API void launch_host_function(Stream& stream, const char* name, std::function<void()> function);

}  // namespace mydev
