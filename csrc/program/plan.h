// Where the temporaries of a program lie.
//
// A temporary lives from the first step that touches it to the last. Those whose lives do not meet may share memory:
// offsets are found greedily by size, each where it fits best between what is placed already and lives at the same time
// (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020, algorithm 3). A result takes
// the very place of an operand that dies in its step where the kernel's contract lets it be that operand. Parameters
// that are donated, and no results, are places too, after their last use, and results before they are first written.
//
// A plan is data about a program, of its steps in order on one stream. Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "program/program.h"

namespace mydev::program {

// A place in the arena, or in the memory of a donated parameter or a result.
struct Placement {
  static constexpr SlotIndex kArena = UINT32_MAX, kNowhere = UINT32_MAX - 1;
  SlotIndex home = kNowhere;  // kArena, a parameter, a result, or kNowhere: neither planned nor needed
  uint64_t offset = 0;
};

struct MemoryPlan {
  uint64_t alignment = 0;            // of each placement, and of homes
  std::vector<Placement> slots;      // of each slot; kNowhere but for temporaries
  std::vector<Placement> workspace;  // of each step, for what it was said to need
  uint64_t arena_bytes = 0;          // the most that is needed at once, as placed
  uint64_t live_bytes = 0;           // the most that lives in the arena at once: no plan needs less
  uint64_t unplanned_bytes = 0;      // each temporary and workspace in memory of its own
};

// `workspace`: bytes that each step needs while it runs (scratch of its kernel, arena of what it calls); empty: none.
// Parameters and results that may not be `aligned` are places only for what is computed in place.
MemoryPlan plan_memory(const Program& program, uint64_t alignment, std::span<const uint64_t> workspace = {},
                       bool aligned = true);

// Raises INTERNAL, naming both, if values that live at the same time overlap, or one lies beyond its home. For tests,
// and for plans that come from elsewhere.
void verify_plan(const Program& program, const MemoryPlan& plan, std::span<const uint64_t> workspace = {});

}  // namespace mydev::program
