// Streams and events.
//
// Policy, as in torch.cuda: each device has a default stream (id 0) and two pools of kPoolSize streams, low and high
// priority, handed out round-robin and never destroyed. External streams wrap a driver's handle until released. The
// current stream is thread-local per device and starts as the default stream. Streams are made at first use. Stream
// objects are referred to by reference, copied never. Thread-safe.
//
// Errors of asynchronous work stick to their stream: the next wait (synchronize, item(), copies to the host, fallback)
// raises the first one, with the kernel, its operands and the Python line that launched it, and clears it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mydev/driver.h"
#include "runtime/device.h"
#include "runtime/status.h"

namespace mydev {

inline constexpr int kPoolSize = 32;

class Event;

class Stream {
 public:
  Stream(Device& device, mydev_stream handle, int64_t id, int priority) noexcept;
  // Stands for another in the allocator, which keeps its memory apart; released with it. `other` must live on.
  static std::unique_ptr<Stream> stand_in(const Stream& other);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const noexcept { return *device_; }
  mydev_stream handle() const noexcept { return handle_; }
  // 0: default; 1..kPoolSize: low; kPoolSize+1..2*kPoolSize: high; above: external.
  int64_t id() const noexcept { return id_; }
  int priority() const noexcept { return priority_; }
  bool asynchronous() const noexcept { return asynchronous_; }
  bool released() const noexcept { return released_ || (stands_for_ != nullptr && stands_for_->released_); }

  bool query();        // all work given so far is done; raises a sticky error
  void synchronize();  // waits; raises a sticky error
  void wait(const Event& event);

  void check_open() const;  // raises FAILED_PRECONDITION for a released stream

  // Used by launch() and by the completion of a frame; the first error wins.
  void set_error(mydev_code code, std::string message, ErrorOwner owner = ErrorOwner::kRuntime);
  void raise_error_if_any();
  void drop_error() noexcept;
  // A launch on it takes the careful path: asynchronous, or released.
  bool needs_care() const noexcept { return needs_care_; }
  bool failed() const noexcept { return failed_.load(std::memory_order_relaxed); }

 private:
  friend void release_external_stream(Stream& stream);

  Device* device_;
  mydev_stream handle_;
  int64_t id_;
  int priority_;
  bool asynchronous_;
  bool needs_care_;
  bool released_ = false;  // an external stream after release_external_stream
  const Stream* stands_for_ = nullptr;
  std::atomic<bool> failed_{false};
  std::mutex mutex_;  // guards what follows
  mydev_code code_ = MYDEV_OK;
  std::string message_;
  ErrorOwner owner_ = ErrorOwner::kRuntime;
};

namespace detail {
Stream& look_up_current_stream(int device);
void forget_streams() noexcept;  // in a forked child
void raise_first_stream_error(int device);
}  // namespace detail

Stream& default_stream(int device);
inline Stream& current_stream(int device) {
  if (static_cast<unsigned>(device) < unsigned{kMaxDevices}) [[likely]] {
    if (Stream* stream = detail::thread_state->current_streams[static_cast<unsigned>(device)]) [[likely]] {
      return *stream;
    }
  }
  return detail::look_up_current_stream(device);
}
Stream& exchange_current_stream(Stream& stream);  // of its device; returns the previous
// priority < 0: high pool; else low pool.
Stream& stream_from_pool(int device, int priority);
// Raises INVALID_ARGUMENT for an id that names no stream, or one that was released.
Stream& stream_by_id(int device, int64_t id);
Stream& register_external_stream(int device, mydev_stream handle);
// Its id names no stream from now on, and using it raises FAILED_PRECONDITION; the handle stays its owner's.
void release_external_stream(Stream& stream);
// Streams of the device that have been used, in order of id.
std::vector<Stream*> existing_streams(int device);

class Event {
 public:
  Event(int device, bool timing);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  int device() const noexcept { return device_; }
  bool recorded() const noexcept { return stream_ != nullptr; }
  mydev_event handle() const noexcept { return handle_; }
  void record(Stream& stream);
  bool query() const;
  void synchronize() const;               // waits; raises the sticky error of the stream it was recorded on
  void wait_until_done() const noexcept;  // waits; the stream keeps its error
  // Milliseconds; raises if either was not made for timing, not recorded, or is not finished.
  double elapsed(const Event& end) const;

 private:
  int device_;
  bool timing_;
  mydev_event handle_ = nullptr;  // made by the first record
  Stream* stream_ = nullptr;      // of the last record
};

}  // namespace mydev
