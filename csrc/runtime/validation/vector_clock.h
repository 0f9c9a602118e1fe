// Vector clocks. For each timeline (a stream) a clock has the last of its commands that something is ordered after. The
// owner guards them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mydev::validation {

class VectorClock {
 public:
  uint64_t of(size_t timeline) const noexcept { return timeline < epochs_.size() ? epochs_[timeline] : 0; }
  bool covers(size_t timeline, uint64_t epoch) const noexcept { return of(timeline) >= epoch; }
  // Adds one to the timeline's epoch, which it returns.
  uint64_t advance(size_t timeline) {
    if (timeline >= epochs_.size()) epochs_.resize(timeline + 1);
    return ++epochs_[timeline];
  }
  void join(const VectorClock& other) {
    if (other.epochs_.size() > epochs_.size()) epochs_.resize(other.epochs_.size());
    for (size_t i = 0; i < other.epochs_.size(); ++i) epochs_[i] = std::max(epochs_[i], other.epochs_[i]);
  }

 private:
  std::vector<uint64_t> epochs_;
};

}  // namespace mydev::validation
