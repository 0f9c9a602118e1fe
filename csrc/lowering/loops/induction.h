// The parts of tensors that a counted loop reads and writes at places that move by the same step from iteration to
// iteration. Such a part is an operand that moves (program.h), so that nothing has to be computed, looked up or copied
// for it. A counter that is needed for nothing else is left out.
//
// The analysis looks into calls, but not into other bodies inside. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "lowering/loops/counted_loop.h"

namespace mydev::lowering {

// Part of a tensor, without gaps in it, that moves from iteration to iteration.
struct MovingPart {
  const stablehlo::Value* tensor;  // an argument of the loop's body, or a value from outside of the loop
  Sizes start, sizes;              // where it is in the first iteration
  int64_t advance;                 // in elements
  bool is_written = false;
};

// The analysis of the iterations from `first` up to `end`, of which there is at least one.
class Induction {
 public:
  Induction(const Frame& frame, const Loop& loop, uint64_t first, uint64_t end);

  // The value at a place of the state in these iterations, if it is a counter whose values are of its type.
  std::optional<Counter> counter(size_t place) const;
  // Whether it is a counter that is needed for nothing but itself and the places of moving parts.
  bool is_only_counted(size_t place) const { return counters_.contains(place) && !needed_.contains(place); }
  // The places where parts are read and written; the index is that of parts().
  const std::map<OperationInCalls, size_t>& accesses() const noexcept { return accesses_; }
  const std::vector<MovingPart>& parts() const noexcept { return parts_; }
  // The part that an iteration writes of the value at a place of the state, if it writes nothing else of it.
  std::optional<size_t> written_part(size_t place) const;
  // Whether a comparison has a known outcome in all iterations but the first.
  bool differs_in_first_iteration() const noexcept { return differs_in_first_iteration_; }

 private:
  class Walk;

  std::map<size_t, Counter> counters_;  // by their places
  std::set<size_t> needed_;
  std::map<OperationInCalls, size_t> accesses_;
  std::vector<MovingPart> parts_;
  std::map<size_t, size_t> written_;  // parts by the places of the state
  bool differs_in_first_iteration_ = false;
};

}  // namespace mydev::lowering
