// Events: points in the work of a stream. Others wait for them, and time is measured between them. An event that was
// recorded on a capturing stream is a point of that capture, for streams to wait for while the capture lasts. An Event
// is not guarded: one thread at a time.
#pragma once

#include <memory>

#include "mydev/driver.h"
#include "runtime/base/api.h"
#include "runtime/stream/shared_event.h"
#include "runtime/stream/stream.h"

namespace mydev {

class MYDEV_API Event {
 public:
  Event(int device, bool timing);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  int device() const noexcept { return device_; }
  bool recorded() const noexcept { return stream_ != nullptr; }  // not of a capture
  mydev_event handle() const noexcept { return handle_; }
  void record(Stream& stream);
  void record_uncaptured(Stream& stream);  // even where the stream captures: of the work that it was given before
  void block(Stream& stream) const;        // later work on `stream` waits for what was recorded last
  bool query() const;
  void synchronize() const;               // waits; raises the sticky error of the stream it was recorded on
  void wait_until_done() const noexcept;  // waits; the stream keeps its error
  // Shares the event with other processes from now on: each of the above is about the latest record of any of them.
  void share(std::shared_ptr<SharedEvent> shared);
  const SharedEvent* shared() const noexcept { return shared_.get(); }
  // Milliseconds; raises if either was not made for timing, not recorded, or is not finished.
  double elapsed(const Event& end) const;

 private:
  void check_waits(const char* what) const;  // raises for a point of a capture

  int device_;
  bool timing_;
  mydev_event handle_ = nullptr;  // made by the first record
  Stream* stream_ = nullptr;      // of the last record
  bool captured_ = false;         // the last record was of a capture, which may have ended
  std::weak_ptr<Capture> capture_;
  uint64_t point_ = 0;
  std::shared_ptr<SharedEvent> shared_;
};

}  // namespace mydev
