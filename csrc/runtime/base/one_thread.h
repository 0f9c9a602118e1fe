// Parallel regions of one thread, where a team of threads would cost more than it gives.
#pragma once

namespace mydev {

// While it lives, parallel regions that this thread starts have one thread, if `one`.
//
// OpenMP gives every thread that starts one with more a team of its own, for good; and with more threads in teams than
// processors libgomp (GCC's) lets no team wait awake between regions: each of them then begins tens of microseconds
// later, on every thread. So what is done once, beside the thread that computes, is better done alone.
class OneThread {
 public:
  explicit OneThread(bool one = true) noexcept;
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;  // 0: nothing to give back
};

}  // namespace mydev
