// The latest runs that were cancelled, and why. Not guarded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "runtime/base/status.h"

namespace mydev::collectives {

class CancelledRuns {
 public:
  void add(uint64_t run, const std::string& why) {
    if (why_.emplace(run, why).second) in_order_.push_back(run);
    if (in_order_.size() <= kMost) return;
    why_.erase(in_order_.front());
    in_order_.pop_front();
  }
  bool contains(uint64_t run) const { return why_.contains(run); }
  // Raises ABORTED if the run was cancelled.
  void check(uint64_t run) const {
    const auto found = why_.find(run);
    if (found != why_.end()) {
      raise(MYDEV_ABORTED, "the other devices of this run were waited for in vain: " + found->second);
    }
  }

 private:
  static constexpr size_t kMost = 64;  // that are remembered: runs follow each other
  std::map<uint64_t, std::string> why_;
  std::deque<uint64_t> in_order_;  // the oldest is forgotten first
};

}  // namespace mydev::collectives
