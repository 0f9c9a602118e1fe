// Frames that the driver has accepted for later execution, until it completes them. It must complete each once, in the
// order of the stream, after the launch that it accepted, and before a wait for the stream returns. The owner guards
// it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "mydev/driver.h"
#include "runtime/validation/order.h"

namespace mydev::validation {

struct AcceptedFrame {
  std::shared_ptr<const std::string> what;  // "mydev.sum at train.py:12 in step"
  mydev_stream stream;
  const mydev_host_services* host;  // that the frame came with
  uint64_t began;                   // when launch was called; in calls
  uint64_t accepted = 0;            // when it returned; 0: it has not
  Point point;                      // what is done when it is, with calls of the host's that its stream waits for
  std::optional<mydev_code> code;   // completed before launch returned
  bool reported = false;            // as never completed
};

class Completions {
 public:
  uint64_t now() noexcept { return ++time_; }
  AcceptedFrame& add(mydev_frame* frame, AcceptedFrame entry);
  AcceptedFrame* find(const mydev_frame* frame);
  void remove(const mydev_frame* frame);
  // Says what is wrong with completing this frame now; "" if nothing.
  std::string wrong_order(const AcceptedFrame& entry) const;
  // The message for a frame that is not here. It says whether the frame was completed before.
  std::string unknown(const mydev_frame* frame) const;
  // A frame of the stream (NULL: of any) that was accepted before `time`, is not completed and was not reported; marks
  // it as reported.
  std::optional<std::string> overdue(mydev_stream stream, uint64_t time);

 private:
  uint64_t time_ = 0;
  std::unordered_map<const mydev_frame*, AcceptedFrame> frames_;
  std::map<std::pair<mydev_stream, uint64_t>, AcceptedFrame*> in_order_;                // by stream, then by `began`
  std::deque<std::pair<const mydev_frame*, std::shared_ptr<const std::string>>> past_;  // the latest last; bounded
};

}  // namespace mydev::validation
