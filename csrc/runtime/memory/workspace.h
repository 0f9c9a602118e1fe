// Device memory that kernels and drivers ask for themselves: handlers while they run, workspaces of libraries.
//
// A stream's work runs later than it was given. So memory that the stream's own pool has free now, in the order of
// launches, may still be used by work behind the running one. Requests of running work are therefore served from a
// separate pool, one for each of the driver's streams. They wait for no stream, since it may be their own. Thread-safe.
#pragma once

#include <cstddef>

#include "runtime/base/api.h"
#include "runtime/memory/caching_allocator.h"

namespace mydev {

// Raises RESOURCE_EXHAUSTED. Given back with release().
MYDEV_API Block* allocate_while_running(int device, mydev_stream stream, size_t bytes);

// While one lives, this thread gives work to a stream. Code that it runs meanwhile, above all a driver's launch, asks
// for memory in the order of launches.
class MYDEV_API LaunchScope {
 public:
  LaunchScope() noexcept;
  ~LaunchScope();
  LaunchScope(const LaunchScope&) = delete;
  LaunchScope& operator=(const LaunchScope&) = delete;

 private:
  bool outer_;
};

}  // namespace mydev
