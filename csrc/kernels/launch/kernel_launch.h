// Launching a kernel by what resolve_kernel gave for it: asks its records in order, gives the one that takes the frame
// its scratch, and runs it. Waits for nothing. Thread-safe.
#pragma once

#include <exception>
#include <string>

#include "kernels/registry/launchable.h"
#include "mydev/custom_call.h"
#include "runtime/base/api.h"
#include "runtime/command/launch.h"
#include "runtime/stream/stream.h"

namespace mydev {

// No record of the kernel takes the frame; nothing was run or written. Operators then fall back.
class MYDEV_API KernelDeclined : public std::exception {
 public:
  KernelDeclined(const char* kernel, std::string reasons);
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;  // "mydev.add: driver 'x' takes f32, and operand 1 is s64"
};

// Runs `kernel` on a frame without scratch. A stream that captures is also given what
// resolve_step finds. Throws KernelDeclined if each record declines. Raises the error of a plan or a launch that fails,
// and the allocator's if there is no memory for scratch, with the kernel's name and operands.
MYDEV_API void launch_kernel(const Launchable& kernel, mydev_frame& frame, Stream& stream);

}  // namespace mydev
