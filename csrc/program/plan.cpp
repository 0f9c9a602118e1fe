#include "program/plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "program/lives.h"
#include "runtime/base/status.h"

namespace mydev::program {

namespace {

// Temporaries that share one place since each is computed in the place of the one before it.
struct Value {
  uint64_t bytes = 0;
  Life life;
  std::vector<SlotIndex> slots;        // temporaries, and at most one parameter; or a result
  std::optional<StepIndex> workspace;  // of this step, and of no slot
  std::optional<SlotIndex> home;       // the parameter or result
};

class Planner {
 public:
  Planner(const Program& program, uint64_t alignment, std::span<const uint64_t> workspace, bool aligned)
      : program_(program), workspace_(workspace), aligned_(aligned), lives_(lives_of(program)) {
    plan_.alignment = alignment;
    plan_.slots.resize(program.slots().size());
    plan_.workspace.resize(program.steps().size());
  }

  MemoryPlan run() {
    make_values();
    std::ranges::stable_sort(values_, [](const Value& a, const Value& b) {
      return std::pair(a.bytes, a.life.length()) > std::pair(b.bytes, b.life.length());
    });
    for (const Value& value : values_) {
      if (value.home) put(value, *value.home, 0);
    }
    for (const Value& value : values_) {
      if (!value.home) place(value);
    }
    for (const Placed& placed : homes_[Placement::kArena]) {
      plan_.arena_bytes = std::max(plan_.arena_bytes, placed.end);
    }
    plan_.live_bytes = most_live_bytes();
    return std::move(plan_);
  }

 private:
  struct Placed {
    uint64_t begin, end;
    Life life;
  };

  uint64_t round_up(uint64_t bytes) const { return (bytes + plan_.alignment - 1) / plan_.alignment * plan_.alignment; }

  void make_values() {
    const std::vector<SlotIndex> origin = places_taken(program_, lives_);
    std::map<SlotIndex, Value> by_origin;
    for (SlotIndex index = 0; index < origin.size(); ++index) {
      const Slot& slot = program_.slots()[index];
      const bool home = slot.kind == SlotKind::kResult ||
                        (slot.kind == SlotKind::kParameter && slot.donated && !program_.is_result(index));
      const bool planned = slot.kind == SlotKind::kTemporary && lives_[index].length() > 0;
      if (!home && !planned) continue;
      if (planned) plan_.unplanned_bytes += round_up(slot.bytes());
      SlotIndex first = index;
      while (origin[first] != first) first = origin[first];
      Value& value = by_origin[first];
      const bool empty = value.slots.empty();
      value.slots.push_back(index);
      value.bytes = std::max(value.bytes, slot.bytes());
      value.life.first = empty ? lives_[index].first : std::min(value.life.first, lives_[index].first);
      value.life.last = empty ? lives_[index].last : std::max(value.life.last, lives_[index].last);
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
    const Placed placed{offset, offset + round_up(value.bytes), value.life};
    std::vector<Placed>& all = homes_[home];
    all.insert(std::ranges::upper_bound(all, offset, {}, &Placed::begin), placed);
  }

  // The least gap that holds the value: in what the caller gives, else in the arena, which ends where it is needed.
  void place(const Value& value) {
    struct Gap {
      uint64_t bytes, offset;
      SlotIndex home;
    };
    std::optional<Gap> best;
    const auto offer = [&](const Gap& gap) {
      if (gap.bytes >= value.bytes && (!best || gap.bytes < best->bytes)) best = gap;
    };
    const auto offer_gaps_of = [&](SlotIndex home) {
      uint64_t free = 0;  // nothing that lives at the same time lies behind it, so far
      for (const Placed& placed : homes_[home]) {
        if (!placed.life.meets(value.life)) continue;
        if (placed.begin > free) offer({placed.begin - free, free, home});
        free = std::max(free, placed.end);
      }
      return free;
    };
    for (const auto& [home, placed] : homes_) {
      if (!aligned_ || home == Placement::kArena) continue;
      const uint64_t free = offer_gaps_of(home), bytes = program_.slots()[home].bytes();
      if (bytes > free) offer({bytes - free, free, home});
    }
    if (!best) {
      const uint64_t free = offer_gaps_of(Placement::kArena);
      if (!best) best = Gap{value.bytes, free, Placement::kArena};
    }
    put(value, best->home, best->offset);
  }

  uint64_t most_live_bytes() {
    std::vector<int64_t> change(program_.steps().size() + 1);
    for (const Placed& placed : homes_[Placement::kArena]) {
      const auto bytes = static_cast<int64_t>(placed.end - placed.begin);
      change[static_cast<size_t>(placed.life.first)] += bytes;
      change[static_cast<size_t>(placed.life.last) + 1] -= bytes;
    }
    int64_t live = 0, most = 0;
    for (const int64_t bytes : change) most = std::max(most, live += bytes);
    return static_cast<uint64_t>(most);
  }

  const Program& program_;
  std::span<const uint64_t> workspace_;
  bool aligned_;
  std::vector<Life> lives_;
  std::vector<Value> values_;
  std::map<SlotIndex, std::vector<Placed>> homes_;  // what lies there, by offset
  MemoryPlan plan_;
};

}  // namespace

MemoryPlan plan_memory(const Program& program, uint64_t alignment, std::span<const uint64_t> workspace, bool aligned) {
  MYDEV_CHECK(workspace.empty() || workspace.size() == program.steps().size(), MYDEV_INVALID_ARGUMENT,
              "workspace is given for ", workspace.size(), " steps, and the program has ", program.steps().size());
  MYDEV_CHECK(alignment != 0, MYDEV_INVALID_ARGUMENT, "an alignment of 0 bytes; give 1 for none");
  return Planner(program, alignment, workspace, aligned).run();
}

namespace {

// Something that has a place: a temporary, a parameter, a result, or the workspace of a step.
struct Occupant {
  std::string name;
  Placement placement;
  uint64_t bytes;
  Life life;
  std::optional<SlotIndex> slot;
};

std::vector<Occupant> occupants(const Program& program, const MemoryPlan& plan, std::span<const uint64_t> workspace) {
  const std::vector<Life> lives = lives_of(program);
  std::vector<Occupant> all;
  for (SlotIndex index = 0; index < lives.size(); ++index) {
    const Slot& slot = program.slots()[index];
    const bool given = slot.kind == SlotKind::kParameter || slot.kind == SlotKind::kResult;
    const Placement placement = given ? Placement{index, 0} : plan.slots[index];
    if (placement.home == Placement::kNowhere || lives[index].length() <= 0) continue;
    all.push_back({"'" + slot.name + "'", placement, slot.bytes(), lives[index], index});
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

}  // namespace

void verify_plan(const Program& program, const MemoryPlan& plan, std::span<const uint64_t> workspace) {
  const std::vector<Life> lives = lives_of(program);
  const std::vector<SlotIndex> origin = places_taken(program, lives);
  const auto is_origin = [&](const Occupant& a, const Occupant& b) {
    return a.slot && b.slot && origin[*b.slot] == *a.slot && a.life.last == b.life.first &&
           a.placement.offset == b.placement.offset;
  };
  const std::vector<Occupant> all = occupants(program, plan, workspace);
  for (const Occupant& one : all) {
    const Placement& at = one.placement;
    const uint64_t room = at.home == Placement::kArena ? plan.arena_bytes : program.slots()[at.home].bytes();
    MYDEV_CHECK(at.offset + one.bytes <= room && at.offset % plan.alignment == 0, MYDEV_INTERNAL, "program '",
                program.name(), "': ", one.name, " of ", one.bytes, " bytes lies at ", at.offset, " of ", room);
    for (const Occupant& other : all) {
      const bool apart = &one == &other || at.home != other.placement.home || !one.life.meets(other.life) ||
                         at.offset + one.bytes <= other.placement.offset ||
                         other.placement.offset + other.bytes <= at.offset;
      MYDEV_CHECK(apart || is_origin(one, other) || is_origin(other, one), MYDEV_INTERNAL, "program '", program.name(),
                  "': ", one.name, " and ", other.name, " live at the same time in the same memory");
    }
  }
}

}  // namespace mydev::program
