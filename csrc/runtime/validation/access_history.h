// The last users of memory: for each range of addresses, the commands that later ones must be ordered after.
//
// An access that the host has seen finished comes before all that it will ask for, and is forgotten. So is an access
// that is replaced by a later command of the same stream, or by one that was ordered after it. If a program gives much
// work without ever waiting, the history is bounded by kMostRanges, and by kMostViews views with gaps for each range.
// Then a conflict may be missed, but no false one is found. The owner guards it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/interval_map.h"
#include "runtime/validation/memory_view.h"
#include "runtime/validation/vector_clock.h"

namespace mydev::validation {

// A piece of work given to a stream, for messages.
struct Command {
  std::string what;    // "mydev.sum", "copy", ...
  std::string source;  // "train.py:12 in step", or ""
  std::string stream;
};

struct Access {
  std::shared_ptr<const Command> command;
  size_t timeline;  // of the stream; with the epoch, the command's place in it
  uint64_t epoch;
  bool writes;
  std::string role;  // "result 0"
  MemoryView view;
};
using SharedAccess = std::shared_ptr<const Access>;

class AccessHistory {
 public:
  static constexpr size_t kMostRanges = size_t{1} << 16;
  static constexpr size_t kMostViews = 16;

  // Returns an earlier access that the command of this clock is not ordered after, if one of the two writes; else
  // nullptr.
  SharedAccess conflict(const Access& access, const VectorClock& clock) const;
  // `host`: the clock of the work that the host has seen finished.
  void add(const SharedAccess& access, const VectorClock& clock, const VectorClock& host);
  // Removes an access whose command the driver refused.
  void forget(const Access& access);
  // An access in the range that the host has not seen finished; nullptr if none.
  SharedAccess pending(uintptr_t begin, uintptr_t end, const VectorClock& host) const;
  // Forgets the range: its memory is given back.
  void erase(uintptr_t begin, uintptr_t end);
  size_t ranges() const noexcept { return ranges_.size(); }

 private:
  using Accesses = std::vector<SharedAccess>;
  void prune(const VectorClock& host);

  IntervalMap<Accesses> ranges_;
  size_t prune_at_ = 1024;
};

}  // namespace mydev::validation
