// Loops, and those of them that count: how often they run, and what their counters are. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lowering/frame.h"

namespace mydev::lowering {

struct Loop {
  const stablehlo::Operation& op;
  const stablehlo::Region &condition, &body;
  std::vector<size_t> changing;  // places of the values that change; tokens and the others do not

  explicit Loop(const stablehlo::Operation& op);
  bool changes(size_t place) const;
};

// i < limit, i + step: how often a loop runs.
std::optional<uint64_t> rounds_of(const Frame& frame, const Loop& loop);

// A value that grows by the same step in each round.
struct Counter {
  int64_t start, step;

  std::optional<int64_t> in_round(uint64_t round) const noexcept;  // nothing: beyond s64
  int64_t known_in_round(uint64_t round) const;                    // where it is known to be a number of its type
};

// The value at a place of the state, if it is a number in the beginning and i + step is what a round leaves of it.
std::optional<Counter> counter_at(const Frame& frame, const Loop& loop, size_t place);

bool is_signed(const stablehlo::Type& type) noexcept;  // of integers

}  // namespace mydev::lowering
