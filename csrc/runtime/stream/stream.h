// A stream of a device: its driver's handle, and the error that sticks to it. stream_table.h has the process's streams.
//
// Stream objects are referred to by reference, copied never. Thread-safe.
//
// Errors of asynchronous work stick to their stream: the next wait (synchronize, item(), copies to the host, fallback)
// raises the first one, with the kernel, its operands and the Python line that launched it, and clears it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "mydev/driver.h"
#include "runtime/base/status.h"
#include "runtime/driver/device.h"

namespace mydev {

class Stream {
 public:
  Stream(Device& device, mydev_stream handle, int64_t id, int priority) noexcept;
  // The same stream of the driver under another key of the allocator, which keeps its memory apart; released with
  // `other`, which must live on.
  static std::unique_ptr<Stream> alias_of(const Stream& other);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const noexcept { return *device_; }
  mydev_stream handle() const noexcept { return handle_; }
  // 0: default; 1..kPoolSize: low; kPoolSize+1..2*kPoolSize: high; above: external.
  int64_t id() const noexcept { return id_; }
  int priority() const noexcept { return priority_; }
  bool asynchronous() const noexcept { return asynchronous_; }
  bool released() const noexcept { return released_ || (aliased_ != nullptr && aliased_->released_); }

  bool query();        // all work given so far is done; raises a sticky error
  void synchronize();  // waits; raises a sticky error
  // Calls the function once all work given so far is done, and holds up later work until it returns; at once on this
  // thread where the driver has no such call. What it throws becomes the sticky error. It must not use the device.
  void host_call(std::function<void()> function);

  void check_open() const;  // raises FAILED_PRECONDITION for a released stream

  // Used by launch() and by the completion of a frame; the first error wins.
  void set_error(mydev_code code, std::string message, ErrorOwner owner = ErrorOwner::kRuntime);
  // Makes the failure that the driver tells of (stream_status), if any, the sticky error. After a wait.
  void collect_status();
  void raise_error_if_any();
  void drop_error() noexcept;
  // A launch on it takes the careful path: asynchronous, or released.
  bool needs_care() const noexcept { return needs_care_; }
  // The driver's own kernels borrow their frames (MYDEV_CAPABILITY_LAUNCH_COPIES).
  bool launch_copies() const noexcept { return launch_copies_; }
  bool failed() const noexcept { return failed_.load(std::memory_order_relaxed); }

 private:
  friend void release_external_stream(Stream& stream);

  Device* device_;
  mydev_stream handle_;
  int64_t id_;
  int priority_;
  bool asynchronous_;
  bool needs_care_;
  bool launch_copies_;
  bool released_ = false;  // an external stream after release_external_stream
  const Stream* aliased_ = nullptr;
  std::atomic<bool> failed_{false};
  std::mutex mutex_;  // guards what follows
  mydev_code code_ = MYDEV_OK;
  std::string message_;
  ErrorOwner owner_ = ErrorOwner::kRuntime;
};

}  // namespace mydev
