// The live ranges of a program's slots, and the results that take over the memory of an operand.
#pragma once

#include <cstdint>
#include <vector>

#include "program/ir/program.h"
#include "runtime/base/api.h"

namespace mydev::program {

// A live range: the steps from the first to the last that touches a value; empty if last < first.
struct LiveRange {
  int64_t first = 0, last = -1;
  bool meets(const LiveRange& other) const noexcept { return first <= other.last && other.first <= last; }
  int64_t length() const noexcept { return last - first + 1; }
};

// Returns the live range of each slot. The range of a parameter starts at the beginning, that of a result lasts to the
// end.
std::vector<LiveRange> live_ranges_of(const Program& program);

// Returns for each slot the slot whose memory it takes over, or itself. A temporary takes over the memory of an operand
// that dies in its first step. The step is a launch whose kernel's contract allows it, or a fused step.
std::vector<SlotIndex> in_place_reuse(const Program& program, const std::vector<LiveRange>& live_ranges);
// Returns for each slot the first slot of that chain. All slots of a chain share one memory.
MYDEV_API std::vector<SlotIndex> shared_memory(const Program& program);

}  // namespace mydev::program
