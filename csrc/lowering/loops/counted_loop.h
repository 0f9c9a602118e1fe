// Loops, and counted loops among them: their trip counts and their counters. One thread.
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

// The trip count of a loop of the form i < limit, i + step; none: it is not known.
std::optional<uint64_t> trip_count_of(const Frame& frame, const Loop& loop);

// A value that grows by the same step in each iteration.
struct Counter {
  int64_t start, step;

  std::optional<int64_t> in_iteration(uint64_t iteration) const noexcept;  // nothing: beyond s64
  int64_t known_in_iteration(uint64_t iteration) const;  // where it is known to be a number of its type
};

// The value at a place of the state, if it starts as a known number and each iteration replaces i by i + step.
std::optional<Counter> counter_at(const Frame& frame, const Loop& loop, size_t place);

bool is_signed(const stablehlo::Type& type) noexcept;  // of integers

}  // namespace mydev::lowering
