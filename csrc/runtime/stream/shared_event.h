// A point in a stream's work that streams of several processes wait for.
//
// The processes share a page of memory, in which records are counted: the latest one that a stream was given, and the
// latest that is done. So a shared event needs nothing of the driver but stream_host_call; without that, recording
// waits for the stream. The page is a memory file of the process that made it, and lives as long as one process has it
// open. The process that made it must be alive when another opens it. Waiting for a record raises an Error if its
// process ended before it was done. Thread-safe, between processes too.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/api.h"
#include "runtime/stream/stream.h"

namespace mydev {

class MYDEV_API SharedEvent : public std::enable_shared_from_this<SharedEvent> {
 public:
  static std::shared_ptr<SharedEvent> create();
  // Opens the event whose handle() was called in any process of this machine and user. Raises INVALID_ARGUMENT for text
  // that is no handle, and NOT_FOUND if the process that made the event has ended.
  static std::shared_ptr<SharedEvent> open(const std::string& handle);
  ~SharedEvent();
  SharedEvent(const SharedEvent&) = delete;
  SharedEvent& operator=(const SharedEvent&) = delete;

  std::string handle() const;  // at most 64 printable characters
  void record(Stream& stream);
  void block(Stream& stream);  // later work on `stream` waits for what was recorded last, by any process
  bool query() const;
  void synchronize() const;

 private:
  struct Page;
  SharedEvent(Page* page, int owner, int file) : page_(page), owner_(owner), file_(file) {}
  void finish(uint32_t record);
  void wait_for(uint32_t record) const;
  bool done(uint32_t record) const;

  Page* page_;
  int owner_;  // the process that made it, ...
  int file_;   // ... and the file's number there
};

}  // namespace mydev
