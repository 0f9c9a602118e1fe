// The streams that a driver has made, which their handles point to. Thread-safe.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>

#include "mydev/driver.h"

namespace mydev::driver_support {

template <typename Stream>
class Streams {
 public:
  mydev_stream add(std::unique_ptr<Stream> stream) {
    const std::lock_guard lock(mutex_);
    streams_.insert(stream.get());
    return reinterpret_cast<mydev_stream>(stream.release());
  }
  void destroy(mydev_stream handle) {
    const std::unique_ptr<Stream> owned(reinterpret_cast<Stream*>(handle));
    const std::lock_guard lock(mutex_);
    streams_.erase(owned.get());
  }
  // Whether the condition holds for all; it is asked of one after the other until it does not.
  template <typename Condition>
  bool all_of(const Condition& condition) {
    const std::lock_guard lock(mutex_);
    return std::ranges::all_of(streams_, [&](Stream* stream) { return condition(*stream); });
  }
  template <typename Body>
  void for_each(const Body& body) {
    const std::lock_guard lock(mutex_);
    for (Stream* stream : streams_) body(*stream);
  }

 private:
  std::mutex mutex_;
  std::set<Stream*> streams_;
};

}  // namespace mydev::driver_support
