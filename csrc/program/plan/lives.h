// When the slots of a program live, and which results take the place of an operand.
#pragma once

#include <cstdint>
#include <vector>

#include "program/ir/program.h"

namespace mydev::program {

// Steps from the first to the last that touches a value; none if last < first.
struct Life {
  int64_t first = 0, last = -1;
  bool meets(const Life& other) const noexcept { return first <= other.last && other.first <= last; }
  int64_t length() const noexcept { return last - first + 1; }
};

// Of each slot; of a parameter from the beginning, of a result to the end.
std::vector<Life> lives_of(const Program& program);

// For each slot the one whose memory it takes over, or itself: a temporary whose first step is a launch that may, by
// the contract of its kernel, write it over an operand that dies there.
std::vector<SlotIndex> places_taken(const Program& program, const std::vector<Life>& lives);
// The slot at the beginning of that chain, for each slot: slots of one have one memory.
std::vector<SlotIndex> shared_memory(const Program& program);

}  // namespace mydev::program
