// Device memory that kernels and drivers ask for themselves: handlers while they run, workspaces of libraries.
//
// A stream's work runs later than it was given. So what the stream's own pool has free now, in the order of launches,
// may still be in use by work that is behind the one that is running: who asks while running is served from a pool of
// its own, one for each of the driver's streams, and waits for no stream, since it may be that one. Thread-safe.
#pragma once

#include <cstddef>

#include "runtime/memory/caching_allocator.h"

namespace mydev {

// Raises RESOURCE_EXHAUSTED. Given back with release().
Block* allocate_while_running(int device, mydev_stream stream, size_t bytes);

// While one lives, this thread gives work to a stream: what runs on it, a driver's launch above all, asks in the order
// of launches.
class LaunchScope {
 public:
  LaunchScope() noexcept;
  ~LaunchScope();
  LaunchScope(const LaunchScope&) = delete;
  LaunchScope& operator=(const LaunchScope&) = delete;

 private:
  bool outer_;
};

}  // namespace mydev
