// The services that the runtime gives to drivers and kernels: messages of failures, the thread pool, the end of a
// launch that a driver accepted for later, a log, workspaces.
#pragma once

#include "mydev/custom_call.h"
#include "runtime/base/api.h"

namespace mydev {

// A frame's `launch` points to one while an asynchronous driver owns the frame.
class LaunchCompletion {
 public:
  LaunchCompletion() = default;
  LaunchCompletion(const LaunchCompletion&) = delete;
  LaunchCompletion& operator=(const LaunchCompletion&) = delete;
  // Called once, on any thread, when the work is finished; releases the frame and this object.
  virtual void complete(mydev_frame* frame, mydev_code code) = 0;

 protected:
  ~LaunchCompletion() = default;
};

namespace detail {
MYDEV_API extern const mydev_host_services services;

// memory/workspace.cpp defines these, since the allocator lies above this folder.
mydev_code allocate_workspace(int32_t device, mydev_stream handle, uint64_t bytes, void** out_data);
mydev_code free_workspace(int32_t device, mydev_stream handle, void* data);
const char* workspace_error();
}  // namespace detail

inline const mydev_host_services& host_services() noexcept {
  return detail::services;
}

}  // namespace mydev
