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

#include "runtime/device.h"
#include "mydev/driver.h"

namespace mydev {

inline constexpr int kPoolSize = 32;

class Event;

class Stream {
 public:
  Stream(Device& device, mydev_stream handle, int64_t id, int priority) noexcept;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const noexcept { return *device_; }
  mydev_stream handle() const noexcept { return handle_; }
  // 0: default; 1..kPoolSize: low; kPoolSize+1..2*kPoolSize: high; above: external.
  int64_t id() const noexcept { return id_; }
  int priority() const noexcept { return priority_; }
  bool asynchronous() const noexcept { return asynchronous_; }

  bool query();        // all work given so far is done; raises a sticky error
  void synchronize();  // waits; raises a sticky error
  void wait(const Event& event);

  // Used by launch() and by the completion of a frame; the first error wins.
  void set_error(mydev_code code, std::string message);
  void raise_error_if_any();

 private:
  Device* device_;
  mydev_stream handle_;
  int64_t id_;
  int priority_;
  bool asynchronous_;
  std::atomic<bool> failed_{false};
  std::mutex mutex_;  // guards the two below
  mydev_code code_ = MYDEV_OK;
  std::string message_;
};

Stream& default_stream(int device);
Stream& current_stream(int device);
Stream& exchange_current_stream(Stream& stream);  // of its device; returns the previous
// priority < 0: high pool; else low pool.
Stream& stream_from_pool(int device, int priority);
// Raises INVALID_ARGUMENT for an id that names no stream, or one that was released.
Stream& stream_by_id(int device, int64_t id);
Stream& register_external_stream(int device, mydev_stream handle);
void release_external_stream(Stream& stream);

class Event {
 public:
  Event(int device, bool timing);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  int device() const noexcept { return device_; }
  bool recorded() const noexcept { return recorded_; }
  mydev_event handle() const noexcept { return handle_; }
  void record(Stream& stream);
  bool query() const;
  void synchronize() const;
  // Milliseconds; raises if either was not made for timing, not recorded, or is not finished.
  double elapsed(const Event& end) const;

 private:
  int device_;
  bool timing_;
  bool recorded_ = false;
  mydev_event handle_ = nullptr;
};

}  // namespace mydev
