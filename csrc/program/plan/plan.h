// The memory plan of a program: where its temporaries lie.
//
// A temporary lives from the first step that touches it to the last. Temporaries whose live ranges do not overlap may
// share memory. Offsets are found greedily by size: each temporary goes where it fits best between those that are
// placed already and live at the same time (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
// Inference", 2020, algorithm 3). A result takes over the memory of an operand that dies in its step if the kernel's
// contract allows it. Temporaries may also lie in donated parameters that are no results, after their last use, and in
// results before they are first written.
//
// If that memory comes when it is needed and goes when it is not, placing a temporary in it is no gain by itself: a
// home that stays for the sake of a temporary adds to the memory in use. Then the least increase of the peak decides,
// then whether memory is added in any step, and only then the fit.
//
// A plan is data about a program whose steps run in order on one stream. Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "program/ir/program.h"
#include "program/plan/live_ranges.h"
#include "runtime/base/api.h"

namespace mydev::program {

// How the memory of donated parameters and of results is given to a run.
enum class Given : uint8_t {
  kWhole,       // from before the first step until after the last
  kWhenNeeded,  // a result's from the first step that needs it on; a parameter's is taken back after the last one
  kUnaligned    // whole, at any address: places only for what is computed in place
};

// A place in the arena, or in the memory of a donated parameter or a result.
struct Placement {
  static constexpr SlotIndex kArena = UINT32_MAX / 2 + 1, kNowhere = UINT32_MAX;
  SlotIndex home = kNowhere;  // a parameter, a result, kArena plus the block; or kNowhere: neither planned nor needed
  uint64_t offset = 0;
};

// The arena is one block. With kWhenNeeded it may be several, each of which exists while something lives in it.
struct ArenaBlock {
  uint64_t bytes = 0;
  LiveRange needed;
};

struct MemoryPlan {
  uint64_t alignment = 0;            // of each placement, and of homes
  std::vector<Placement> slots;      // of each slot; kNowhere but for temporaries
  std::vector<Placement> workspace;  // of each step, for what it was said to need
  std::vector<ArenaBlock> arena;
  uint64_t arena_bytes = 0;       // of all its blocks
  uint64_t live_bytes = 0;        // the most that lives in the arena at once: no plan needs less
  uint64_t unplanned_bytes = 0;   // each temporary and workspace in memory of its own
  std::vector<LiveRange> needed;  // of each slot: steps while memory that is given for it holds a value
};

// `workspace`: bytes that each step needs while it runs (scratch of its kernel, arena of what it calls); empty: none.
MYDEV_API MemoryPlan plan_memory(const Program& program, uint64_t alignment, std::span<const uint64_t> workspace = {},
                                 Given given = Given::kWhole);

// Raises INTERNAL, naming the values, if two that live at the same time overlap, if one lies beyond its home, or if one
// lives while its home is not needed. For tests, and for plans that come from elsewhere.
MYDEV_API void verify_plan(const Program& program, const MemoryPlan& plan, std::span<const uint64_t> workspace = {});

}  // namespace mydev::program
