// Whether the calling thread runs a host function of a stream (runtime/command/host_function.h), which must not wait
// for the device: the stream waits for it.
#pragma once

namespace mydev {

class HostFunctionScope {
 public:
  HostFunctionScope() noexcept;
  ~HostFunctionScope();
  HostFunctionScope(const HostFunctionScope&) = delete;
  HostFunctionScope& operator=(const HostFunctionScope&) = delete;

  // Raises FAILED_PRECONDITION inside of one: `what` ("waiting for the stream") would never end.
  static void check_waits(const char* what);

 private:
  bool outer_;
};

}  // namespace mydev
