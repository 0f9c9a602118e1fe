#include "program/plan/plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "runtime/base/status.h"

namespace mydev::program {

namespace {

// Temporaries that share memory, since each is computed in the memory of the one before it.
struct Value {
  uint64_t bytes = 0;
  LiveRange range;
  std::vector<SlotIndex> slots;        // temporaries, and at most one parameter; or a result
  std::optional<StepIndex> workspace;  // of this step, and of no slot
  std::optional<SlotIndex> home;       // the parameter or result
};

// The bytes in use at each step, and their maximum over a range of steps: a tree that halves the steps.
class Profile {
 public:
  explicit Profile(size_t steps) : steps_(std::bit_ceil(std::max<size_t>(steps, 1))), nodes_(2 * steps_) {}

  void add(const LiveRange& range, uint64_t bytes) {
    if (range.length() > 0) add(1, {0, last()}, range, bytes);
  }
  uint64_t most(const LiveRange& range) const { return range.length() > 0 ? most(1, {0, last()}, range) : 0; }
  uint64_t most() const { return nodes_[1].most; }

 private:
  struct Node {
    uint64_t added = 0;  // in all of its steps
    uint64_t most = 0;   // with that
  };
  int64_t last() const { return static_cast<int64_t>(steps_) - 1; }
  static std::pair<LiveRange, LiveRange> halves(const LiveRange& steps) {
    const int64_t middle = (steps.first + steps.last) / 2;
    return {{steps.first, middle}, {middle + 1, steps.last}};
  }

  void add(size_t node, const LiveRange& steps, const LiveRange& range, uint64_t bytes) {
    if (!steps.meets(range)) return;
    if (range.first <= steps.first && steps.last <= range.last) {
      nodes_[node].added += bytes;
      nodes_[node].most += bytes;
      return;
    }
    const auto [first, second] = halves(steps);
    add(2 * node, first, range, bytes);
    add(2 * node + 1, second, range, bytes);
    nodes_[node].most = nodes_[node].added + std::max(nodes_[2 * node].most, nodes_[2 * node + 1].most);
  }

  uint64_t most(size_t node, const LiveRange& steps, const LiveRange& range) const {
    if (!steps.meets(range)) return 0;
    if (range.first <= steps.first && steps.last <= range.last) return nodes_[node].most;
    const auto [first, second] = halves(steps);
    return nodes_[node].added + std::max(most(2 * node, first, range), most(2 * node + 1, second, range));
  }

  size_t steps_;
  std::vector<Node> nodes_;
};

LiveRange both(const LiveRange& a, const LiveRange& b) {
  if (a.length() <= 0) return b;
  if (b.length() <= 0) return a;
  return {std::min(a.first, b.first), std::max(a.last, b.last)};
}

class Planner {
  static constexpr size_t kMostBlocks = 16;              // of an arena: each is an allocation at each run
  static constexpr uint64_t kAsNeeded = UINT64_MAX / 2;  // where a block of the arena ends

 public:
  Planner(const Program& program, uint64_t alignment, std::span<const uint64_t> workspace, Given given)
      : program_(program),
        workspace_(workspace),
        given_(given),
        live_ranges_(live_ranges_of(program)),
        there_(program.steps().size() + 1) {
    plan_.alignment = alignment;
    plan_.needed.resize(program.slots().size());
    plan_.slots.resize(program.slots().size());
    plan_.workspace.resize(program.steps().size());
  }

  MemoryPlan run() {
    make_values();
    std::ranges::stable_sort(values_, [](const Value& a, const Value& b) {
      return std::pair(a.bytes, a.range.length()) > std::pair(b.bytes, b.range.length());
    });
    for (const Value& value : values_) {
      if (value.home) put(value, *value.home, 0);
    }
    for (const Value& value : values_) {
      if (!value.home) place(value);
    }
    for (const ArenaBlock& block : plan_.arena) plan_.arena_bytes += block.bytes;
    plan_.live_bytes = most_live_bytes();
    return std::move(plan_);
  }

 private:
  struct Placed {
    uint64_t begin, end;
    LiveRange range;
  };

  uint64_t round_up(uint64_t bytes) const { return (bytes + plan_.alignment - 1) / plan_.alignment * plan_.alignment; }

  void make_values() {
    const std::vector<SlotIndex> origin = in_place_reuse(program_, live_ranges_);
    std::map<SlotIndex, Value> by_origin;
    for (SlotIndex index = 0; index < origin.size(); ++index) {
      const Slot& slot = program_.slots()[index];
      const bool home =
          !slot.on_host && (slot.kind == SlotKind::kResult ||
                            (slot.kind == SlotKind::kParameter && slot.donated && !program_.is_result(index)));
      const bool planned = slot.kind == SlotKind::kTemporary && live_ranges_[index].length() > 0;
      if (!home && !planned) continue;
      if (planned) plan_.unplanned_bytes += round_up(slot.bytes());
      SlotIndex first = index;
      while (origin[first] != first) first = origin[first];
      Value& value = by_origin[first];
      const bool empty = value.slots.empty();
      value.slots.push_back(index);
      value.bytes = std::max(value.bytes, slot.bytes());
      value.range.first = empty ? live_ranges_[index].first : std::min(value.range.first, live_ranges_[index].first);
      value.range.last = empty ? live_ranges_[index].last : std::max(value.range.last, live_ranges_[index].last);
      if (home) value.home = index;
    }
    for (auto& [first, value] : by_origin) values_.push_back(std::move(value));
    for (StepIndex step = 0; step < workspace_.size(); ++step) {
      if (workspace_[step] == 0) continue;
      plan_.unplanned_bytes += round_up(workspace_[step]);
      values_.push_back({workspace_[step], {step, step}, {}, step, {}});
    }
  }

  void put(const Value& value, SlotIndex home, uint64_t offset) {
    for (const SlotIndex slot : value.slots) {
      if (program_.slots()[slot].kind == SlotKind::kTemporary) plan_.slots[slot] = {home, offset};
    }
    if (value.workspace) plan_.workspace[*value.workspace] = {home, offset};
    const Placed placed{offset, offset + round_up(value.bytes), value.range};
    std::vector<Placed>& all = homes_[home];
    all.insert(std::ranges::upper_bound(all, offset, {}, &Placed::begin), placed);
    const uint64_t bytes = std::max(bytes_of(home), placed.end);
    const LiveRange needed = both(needed_of(home), value.range);
    there_.add(needed_of(home), bytes - bytes_of(home));
    for (const LiveRange& longer : longer_need(home, value.range)) there_.add(longer, bytes);
    if (home < Placement::kArena) {
      plan_.needed[home] = needed;
    } else {
      plan_.arena.resize(std::max<size_t>(plan_.arena.size(), home - Placement::kArena + 1));
      plan_.arena[home - Placement::kArena] = {bytes, needed};
    }
  }

  // Returns the bytes of a home: a slot, or a block of the arena; 0 for a block that does not exist yet.
  uint64_t bytes_of(SlotIndex home) const {
    if (home < Placement::kArena) return round_up(program_.slots()[home].bytes());
    const size_t block = home - Placement::kArena;
    return block < plan_.arena.size() ? plan_.arena[block].bytes : 0;
  }
  LiveRange needed_of(SlotIndex home) const {
    if (home < Placement::kArena) return plan_.needed[home];
    const size_t block = home - Placement::kArena;
    return block < plan_.arena.size() ? plan_.arena[block].needed : LiveRange{};
  }

  // Returns the steps in which a home would be needed for this live range alone.
  std::array<LiveRange, 2> longer_need(SlotIndex home, const LiveRange& range) const {
    const LiveRange needed = needed_of(home);
    if (needed.length() <= 0) return {range, {}};
    return {{{range.first, needed.first - 1}, {needed.last + 1, range.last}}};
  }

  // Returns by how much the peak rises if a value of this live range is put there, to end at `end`.
  uint64_t cost_of(SlotIndex home, uint64_t end, const LiveRange& range) const {
    const uint64_t bytes = std::max(bytes_of(home), end), more = bytes - bytes_of(home);
    uint64_t most = more != 0 ? there_.most(needed_of(home)) + more : 0;
    for (const LiveRange& longer : longer_need(home, range)) {
      if (longer.length() > 0) most = std::max(most, there_.most(longer) + bytes);
    }
    return most > there_.most() ? most - there_.most() : 0;
  }

  // True if any step needs more memory once a value of this live range is put there, to end at `end`.
  bool adds(SlotIndex home, uint64_t end, const LiveRange& range) const {
    return end > bytes_of(home) ||
           std::ranges::any_of(longer_need(home, range), [](const LiveRange& longer) { return longer.length() > 0; });
  }

  // Puts the value into a gap that holds it, in the caller's memory or in the arena. The gap has the least cost, then
  // it adds no memory if possible, then it is the smallest: the caller's other memory may make a peak of any step. A
  // block of the arena grows as it is needed.
  void place(const Value& value) {
    struct Gap {
      uint64_t bytes, offset;
      SlotIndex home;
      uint64_t cost = 0;
      bool adds = false;
      auto rank() const { return std::tuple(cost, adds, bytes); }
    };
    Gap best{UINT64_MAX, 0, Placement::kArena, UINT64_MAX};  // any is better, and one is offered
    const auto offer = [&](Gap gap) {
      if (gap.bytes < value.bytes) return;
      if (best.rank() <= std::tuple(0, false, gap.bytes)) return;
      if (given_ == Given::kWhenNeeded) {
        const uint64_t end = gap.offset + round_up(value.bytes);
        gap.cost = cost_of(gap.home, end, value.range);
        gap.adds = adds(gap.home, end, value.range);
      }
      if (gap.rank() < best.rank()) best = gap;
    };
    for (const auto& [home, placed] : homes_) {
      if (given_ == Given::kUnaligned && home < Placement::kArena) continue;
      uint64_t free = 0;  // nothing that lives at the same time lies behind it, so far
      for (const Placed& other : placed) {
        if (!other.range.meets(value.range)) continue;
        if (other.begin > free) offer({other.begin - free, free, home});
        free = std::max(free, other.end);
      }
      const uint64_t end = home < Placement::kArena ? program_.slots()[home].bytes() : kAsNeeded;
      if (end > free) offer({end - free, free, home});
    }
    const size_t blocks = plan_.arena.size();
    if (blocks == 0 || (given_ == Given::kWhenNeeded && blocks < kMostBlocks)) {
      offer({UINT64_MAX, 0, Placement::kArena + static_cast<SlotIndex>(blocks)});
    }
    put(value, best.home, best.offset);
  }

  uint64_t most_live_bytes() {
    std::vector<int64_t> change(program_.steps().size() + 1);
    for (const auto& [home, placed] : homes_) {
      if (home < Placement::kArena) continue;
      for (const Placed& value : placed) {
        const auto bytes = static_cast<int64_t>(value.end - value.begin);
        change[static_cast<size_t>(value.range.first)] += bytes;
        change[static_cast<size_t>(value.range.last) + 1] -= bytes;
      }
    }
    int64_t live = 0, most = 0;
    for (const int64_t bytes : change) most = std::max(most, live += bytes);
    return static_cast<uint64_t>(most);
  }

  const Program& program_;
  std::span<const uint64_t> workspace_;
  Given given_;
  std::vector<LiveRange> live_ranges_;
  Profile there_;  // of homes and the arena's blocks, while they are needed
  std::vector<Value> values_;
  std::map<SlotIndex, std::vector<Placed>> homes_;  // what lies there, by offset
  MemoryPlan plan_;
};

}  // namespace

MemoryPlan plan_memory(const Program& program, uint64_t alignment, std::span<const uint64_t> workspace, Given given) {
  MYDEV_CHECK(workspace.empty() || workspace.size() == program.steps().size(), MYDEV_INVALID_ARGUMENT,
              "workspace is given for ", workspace.size(), " steps, and the program has ", program.steps().size());
  MYDEV_CHECK(alignment != 0, MYDEV_INVALID_ARGUMENT, "an alignment of 0 bytes; give 1 for none");
  return Planner(program, alignment, workspace, given).run();
}

namespace {

// A value that has a placement: a temporary, a parameter, a result, or the workspace of a step.
struct Occupant {
  std::string name;
  Placement placement;
  uint64_t bytes;
  LiveRange range;
  std::optional<SlotIndex> slot;
};

std::vector<Occupant> occupants(const Program& program, const MemoryPlan& plan, std::span<const uint64_t> workspace) {
  const std::vector<LiveRange> live_ranges = live_ranges_of(program);
  std::vector<Occupant> all;
  for (SlotIndex index = 0; index < live_ranges.size(); ++index) {
    const Slot& slot = program.slots()[index];
    const bool given = slot.kind == SlotKind::kParameter || slot.kind == SlotKind::kResult;
    const Placement placement = given ? Placement{index, 0} : plan.slots[index];
    if (placement.home == Placement::kNowhere || live_ranges[index].length() <= 0) continue;
    all.push_back({"'" + slot.name + "'", placement, slot.bytes(), live_ranges[index], index});
  }
  for (StepIndex step = 0; step < workspace.size(); ++step) {
    if (workspace[step] == 0) continue;
    all.push_back({"the workspace of step " + std::to_string(step),
                   plan.workspace[step],
                   workspace[step],
                   {step, step},
                   std::nullopt});
  }
  return all;
}

// True for memory of the caller, which exists before a run and after it.
bool is_kept(const Program& program, SlotIndex home) {
  if (home >= Placement::kArena) return false;
  if (program.slots()[home].on_host) return true;
  if (program.slots()[home].kind != SlotKind::kParameter) return false;
  return !program.slots()[home].donated || program.is_result(home);
}

}  // namespace

void verify_plan(const Program& program, const MemoryPlan& plan, std::span<const uint64_t> workspace) {
  const std::vector<LiveRange> live_ranges = live_ranges_of(program);
  const std::vector<SlotIndex> origin = in_place_reuse(program, live_ranges);
  const auto is_origin = [&](const Occupant& a, const Occupant& b) {
    return a.slot && b.slot && origin[*b.slot] == *a.slot && a.range.last == b.range.first &&
           a.placement.offset == b.placement.offset;
  };
  const std::vector<Occupant> all = occupants(program, plan, workspace);
  for (const Occupant& one : all) {
    const Placement& at = one.placement;
    const bool in_arena = at.home >= Placement::kArena;
    const ArenaBlock block = in_arena ? plan.arena.at(at.home - Placement::kArena) : ArenaBlock();
    const uint64_t room = in_arena ? block.bytes : program.slots()[at.home].bytes();
    MYDEV_CHECK(at.offset + one.bytes <= room && at.offset % plan.alignment == 0, MYDEV_INTERNAL, "program '",
                program.name(), "': ", one.name, " of ", one.bytes, " bytes lies at ", at.offset, " of ", room);
    const LiveRange& needed = in_arena ? block.needed : plan.needed[at.home];
    const bool is_there = needed.first <= one.range.first && one.range.last <= needed.last;
    MYDEV_CHECK(is_there || is_kept(program, at.home), MYDEV_INTERNAL, "program '", program.name(), "': ", one.name,
                " lives from step ", one.range.first, " to ", one.range.last, ", and its memory is there from ",
                needed.first, " to ", needed.last);
    for (const Occupant& other : all) {
      const bool apart = &one == &other || at.home != other.placement.home || !one.range.meets(other.range) ||
                         at.offset + one.bytes <= other.placement.offset ||
                         other.placement.offset + other.bytes <= at.offset;
      MYDEV_CHECK(apart || is_origin(one, other) || is_origin(other, one), MYDEV_INTERNAL, "program '", program.name(),
                  "': ", one.name, " and ", other.name, " live at the same time in the same memory");
    }
  }
}

}  // namespace mydev::program
