// Limits parallel regions to one thread, where a team of threads would cost more than it gives.
#pragma once

#include "runtime/base/api.h"

namespace mydev {

// While it lives, parallel regions that this thread starts have one thread, if `one`.
//
// OpenMP gives every thread that starts a region with more threads a team of its own, for good. If teams have more
// threads than there are processors, libgomp (GCC's) lets no team wait awake between regions. Each region then begins
// tens of microseconds later, on every thread. So work that is done once, beside the thread that computes, is better
// done by one thread.
class MYDEV_API OneThread {
 public:
  explicit OneThread(bool one = true) noexcept;
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;  // 0: nothing to give back
};

}  // namespace mydev
