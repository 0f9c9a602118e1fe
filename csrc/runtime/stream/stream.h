// A stream of a device: its driver's handle, and the error that sticks to it. stream_table.h has the process's streams.
//
// Stream objects are referred to by reference, copied never. Thread-safe.
//
// Errors of asynchronous work stick to their stream: the next wait (synchronize, item(), copies to the host, fallback)
// raises the first one, with the kernel, its operands and the Python line that launched it, and clears it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "mydev/driver.h"
#include "runtime/base/api.h"
#include "runtime/base/status.h"
#include "runtime/driver/device.h"
#include "runtime/stream/capture.h"

namespace mydev {

// A copy, fill or graph that a stream was given. Texts live as long as the process.
struct TransferNote {
  const char* name;  // "copy to the host"
  const void* dst;   // nullptr: a graph, which has a name alone
  const void* src;   // nullptr: a fill
  uint64_t bytes;
  const char* line;  // of Python; "" where it is not known
};
// "copy to the host of 64 bytes from 0x7f.. to 0x7f.., submitted at train.py:12 in step"
std::string describe_transfer(const TransferNote& note);

class MYDEV_API Stream {
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
  // thread if the driver has no such call. An exception of the function becomes the sticky error, with `name` and
  // `line`, the Python line, which live as long as the process. The function must not use the device.
  // submit_host_call() makes a command of it.
  void host_call(std::function<void()> function, const char* name, const char* line);

  void check_open() const;  // raises FAILED_PRECONDITION for a released stream

  // Used by launch() and by the completion of a frame; the first error wins.
  void set_error(mydev_code code, std::string message, ErrorOwner owner = ErrorOwner::kRuntime);
  // Makes the failure that the driver reports (stream_status), if any, the sticky error. The message names the copies,
  // fills and graphs that the stream was given since the last wait: the driver says what failed, but not where it was
  // asked for. Called after a wait for all work.
  void collect_status();
  // Remembers one of the latest copies, fills and graphs. For asynchronous streams.
  void note_transfer(const TransferNote& note);
  // For code that times commands. The first calls the function when the work given so far is done (the driver has
  // stream_host_call). The second notes that the stream has reached a time, and returns the one noted before.
  void call_when_reached(std::function<void()> function);
  int64_t note_reached(int64_t time_ns) noexcept { return reached_ns_.exchange(time_ns, std::memory_order_relaxed); }
  void raise_error_if_any();
  void drop_error() noexcept;
  // True if a launch on it takes the careful path: it is asynchronous, released, or capturing.
  bool needs_care() const noexcept { return needs_care_.load(std::memory_order_relaxed); }
  // The driver's own kernels borrow their frames (MYDEV_CAPABILITY_LAUNCH_COPIES).
  bool launch_copies() const noexcept { return launch_copies_; }
  bool failed() const noexcept { return failed_.load(std::memory_order_relaxed); }

  // From now on its work goes to `capture`, which must live until end_capture(), and its memory comes from `pool`.
  // Raises FAILED_PRECONDITION for a stream that captures already.
  void begin_capture(Capture& capture, Stream& pool);
  void end_capture() noexcept;
  Capture* capture() const noexcept { return capture_.load(std::memory_order_acquire); }
  // The stream whose free memory the allocator takes for this one: itself, or that of a capture.
  Stream& memory_pool() noexcept {
    Stream* pool = pool_.load(std::memory_order_relaxed);
    return pool == nullptr ? *this : *pool;
  }
  // True if free memory under this key of the allocator is not given back to the driver.
  bool keeps_memory() const noexcept { return keeps_memory_.load(std::memory_order_relaxed); }
  void set_keeps_memory(bool keeps) noexcept { keeps_memory_.store(keeps, std::memory_order_relaxed); }

 private:
  friend void release_external_stream(Stream& stream);
  std::string take_notes();
  void check_waits(const char* what) const;  // raises while it captures

  Device* device_;
  mydev_stream handle_;
  int64_t id_;
  int priority_;
  bool asynchronous_;
  std::atomic<bool> needs_care_;
  bool launch_copies_;
  bool released_ = false;  // an external stream after release_external_stream
  const Stream* aliased_ = nullptr;
  std::atomic<bool> failed_{false};
  std::atomic<bool> keeps_memory_{false};
  std::atomic<Capture*> capture_{nullptr};
  std::atomic<Stream*> pool_{nullptr};
  std::atomic<int64_t> reached_ns_{0};
  std::mutex mutex_;  // guards what follows
  mydev_code code_ = MYDEV_OK;
  std::string message_;
  ErrorOwner owner_ = ErrorOwner::kRuntime;
  static constexpr size_t kNotes = 16;
  std::array<TransferNote, kNotes> notes_{};  // a ring
  size_t noted_ = 0;                          // since the last wait
};

}  // namespace mydev
