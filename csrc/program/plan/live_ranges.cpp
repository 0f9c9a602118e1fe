#include "program/plan/live_ranges.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "program/ir/access.h"
#include "program/transform/fusible_run.h"

namespace mydev::program {

namespace {

// Finds results that take over the memory of an operand.
class InPlace {
 public:
  InPlace(const Program& program, const std::vector<LiveRange>& live_ranges)
      : program_(program), live_ranges_(live_ranges) {}

  // Returns for each slot the slot whose memory it takes over, or itself.
  std::vector<SlotIndex> run() {
    origin_.resize(program_.slots().size());
    std::iota(origin_.begin(), origin_.end(), 0);
    for (step_ = 0; step_ < program_.steps().size(); ++step_) {
      const Step& step = program_.steps()[step_];
      const KernelContract* contract = step.kind == StepKind::kLaunch ? builtin_contract(step.name) : nullptr;
      if (contract != nullptr) check(step, *contract);
      if (step.kind == StepKind::kFused) check_fused(step);
    }
    return std::move(origin_);
  }

 private:
  void check(const Step& step, const KernelContract& contract) {
    const std::vector<ContractPosition> positions = contract_positions(contract, step);
    std::vector<SlotIndex> taken;
    for (size_t r = 0; r < step.results.size() && !positions.empty(); ++r) {
      if (!begins(step, r)) continue;
      for (size_t o = 0; o < step.operands.size(); ++o) {
        const SlotIndex dying = step.operands[o].slot;
        if (!may_be(contract, positions[r], positions[step.results.size() + o]) ||
            !fits(step.results[r], step.operands[o]) || std::ranges::count(taken, dying) != 0 ||
            !read_in_place_only(step, contract, positions, r, dying)) {
          continue;
        }
        origin_[step.results[r].slot] = dying;
        taken.push_back(dying);
        break;
      }
    }
  }

  // A fused step may be computed tile by tile. So a result may take over the memory of an operand only if a tile reads
  // no elements of it but those that the tile then writes.
  void check_fused(const Step& step) {
    const std::optional<FusibleRun> run = FusibleRun::of(*step.program);
    if (!run) return;
    std::vector<SlotIndex> taken;
    for (size_t r = 0; r < step.results.size(); ++r) {
      if (!begins(step, r)) continue;
      for (size_t o = 0; o < step.operands.size(); ++o) {
        const SlotIndex dying = step.operands[o].slot;
        const auto uses = [&](const Access& access) { return access.operand->slot == dying; };
        if (!fits(step.results[r], step.operands[o]) || std::ranges::count(taken, dying) != 0 ||
            std::ranges::count_if(accesses_of(step), uses) != 1 || !is_read_before(*step.program, *run, o, r)) {
          continue;
        }
        origin_[step.results[r].slot] = dying;
        taken.push_back(dying);
        break;
      }
    }
  }

  // True if a fused program reads nothing of the parameter once the result is written, and both are the same elements.
  static bool is_read_before(const Program& body, const FusibleRun& run, size_t parameter, size_t result) {
    const SlotIndex read = body.parameters()[parameter], written = body.own_results()[result];
    const auto reads = run.uses().find(read), writes = run.uses().find(written);
    if (reads == run.uses().end() || writes == run.uses().end()) return false;
    if (reads->second.several || reads->second.written) return false;
    Operand same = writes->second.view;
    same.slot = read;
    if (!same_place(same, reads->second.view)) return false;
    bool begun = false;
    for (const Step& step : body.steps()) {
      const auto view = std::ranges::find(step.results, written, &Operand::slot);
      const KernelContract& contract = *builtin_contract(step.name);
      const std::vector<ContractPosition> positions = contract_positions(contract, step);
      for (size_t o = 0; o < step.operands.size(); ++o) {
        const Operand& operand = step.operands[o];
        if (operand.kind != Operand::kView || operand.slot != read) continue;
        if (begun) return false;
        if (view == step.results.end()) continue;
        const auto r = static_cast<size_t>(view - step.results.begin());
        Operand there = *view;
        there.slot = read;
        if (!same_place(there, operand) || !may_be(contract, positions[r], positions[step.results.size() + o])) {
          return false;
        }
      }
      begun |= view != step.results.end();
    }
    return true;
  }

  // True if this result is the first access to a temporary.
  bool begins(const Step& step, size_t result) const {
    const Operand& view = step.results[result];
    if (view.kind != Operand::kView || program_.slots()[view.slot].kind != SlotKind::kTemporary) return false;
    const auto touches = [&](const Access& access) { return access.operand->slot == view.slot; };
    return live_ranges_[view.slot].first == step_ && std::ranges::count_if(accesses_of(step), touches) == 1;
  }

  // True if the operand's slot dies in this step, and is large enough for the result's slot.
  bool fits(const Operand& result, const Operand& operand) const {
    if (operand.kind != Operand::kView || live_ranges_[operand.slot].last != step_) return false;
    const Slot &slot = program_.slots()[operand.slot], &placed = program_.slots()[result.slot];
    const bool consumed = slot.kind == SlotKind::kParameter && slot.donated && !program_.is_result(operand.slot);
    if (slot.kind != SlotKind::kTemporary && !consumed) return false;
    Operand there = result;
    there.slot = operand.slot;
    return same_place(there, operand) && placed.bytes() <= home_bytes(operand.slot);
  }

  // Returns the bytes of the parameter in whose memory the slot lies. Temporaries have no limit: they grow with the
  // slots that take over their memory.
  uint64_t home_bytes(SlotIndex slot) const {
    while (origin_[slot] != slot) slot = origin_[slot];
    const Slot& home = program_.slots()[slot];
    return home.kind == SlotKind::kParameter ? home.bytes() : UINT64_MAX;
  }

  // True if all other accesses of the step to the dying slot read the very same elements, as the contract allows.
  bool read_in_place_only(const Step& step, const KernelContract& contract,
                          const std::vector<ContractPosition>& positions, size_t result, SlotIndex dying) const {
    for (size_t o = 0; o < step.operands.size(); ++o) {
      const Operand& operand = step.operands[o];
      if (operand.kind != Operand::kView || operand.slot != dying) continue;
      if (!may_be(contract, positions[result], positions[step.results.size() + o]) ||
          !fits(step.results[result], operand)) {
        return false;
      }
    }
    return std::ranges::none_of(
        step.results, [&](const Operand& other) { return other.kind == Operand::kView && other.slot == dying; });
  }

  const Program& program_;
  const std::vector<LiveRange>& live_ranges_;
  std::vector<SlotIndex> origin_;
  StepIndex step_ = 0;
};

}  // namespace

std::vector<LiveRange> live_ranges_of(const Program& program) {
  std::vector<LiveRange> live_ranges(program.slots().size());
  for (StepIndex step = 0; step < program.steps().size(); ++step) {
    for (const Access& access : accesses_of(program.steps()[step])) {
      LiveRange& range = live_ranges[access.operand->slot];
      if (range.last < range.first) range.first = step;
      range.last = step;
    }
  }
  for (const SlotIndex parameter : program.parameters()) live_ranges[parameter].first = 0;
  for (const SlotIndex result : program.results())
    live_ranges[result].last = static_cast<int64_t>(program.steps().size());
  return live_ranges;
}

std::vector<SlotIndex> in_place_reuse(const Program& program, const std::vector<LiveRange>& live_ranges) {
  return InPlace(program, live_ranges).run();
}

std::vector<SlotIndex> shared_memory(const Program& program) {
  const std::vector<SlotIndex> taken = in_place_reuse(program, live_ranges_of(program));
  std::vector<SlotIndex> first(taken.size());
  for (SlotIndex slot = 0; slot < first.size(); ++slot) {
    first[slot] = slot;
    while (taken[first[slot]] != first[slot]) first[slot] = taken[first[slot]];
  }
  return first;
}

}  // namespace mydev::program
