// Events: points in the work of a stream, which others wait for and which time is measured between. An Event is not
// guarded: one thread at a time.
#pragma once

#include "mydev/driver.h"
#include "runtime/stream/stream.h"

namespace mydev {

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
  void block(Stream& stream) const;  // later work on `stream` waits for what was recorded last
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
