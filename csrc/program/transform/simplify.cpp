#include "program/transform/simplify.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "program/ir/access.h"
#include "program/ir/builder.h"

namespace mydev::program {

namespace {

// True if the view has all elements of the slot in order, in whatever sizes.
bool is_whole(const Operand& view, const Slot& slot) {
  return view.kind == Operand::kView && view.offset == 0 && view.dtype == slot.dtype && is_dense(view) &&
         bytes_touched(view) == std::pair<int64_t, int64_t>(0, static_cast<int64_t>(slot.bytes()));
}

class Simplification {
 public:
  Simplification(const Program& program, Copies copies)
      : program_(program),
        copies_(copies),
        steps_(program.steps()),
        removed_(steps_.size()),
        returned_(program.results()) {}

  SharedProgram run() {
    const bool in_order =
        std::ranges::all_of(steps_, [](const Step& step) { return step.lane == 0 && step.after.empty(); });
    if (in_order) {
      remove_dead_steps();
      for (size_t step = steps_.size(); step-- > 0;) {
        if (is_copy_to_parameter(step) && !remove_copy(step) && copies_ == Copies::kReturnInstead) {
          return_instead(step);
        }
      }
    }
    return rebuilt();
  }

 private:
  bool is_temporary(SlotIndex slot) const { return program_.slots()[slot].kind == SlotKind::kTemporary; }

  // True if the step has no effect but the writing of its results.
  bool is_plain(const Step& step) const {
    if (step.kind == StepKind::kCopy || step.kind == StepKind::kFill) return true;
    return step.kind == StepKind::kLaunch && step.compiled == nullptr && builtin_contract(step.name) != nullptr;
  }

  void remove_dead_steps() {
    std::vector<bool> is_read(program_.slots().size());
    for (size_t step = steps_.size(); step-- > 0;) {
      const auto is_dead = [&](const Operand& result) {
        return result.kind != Operand::kView || (is_temporary(result.slot) && !is_read[result.slot]);
      };
      removed_[step] = is_plain(steps_[step]) && std::ranges::all_of(steps_[step].results, is_dead);
      if (removed_[step]) continue;
      for (const Access& access : accesses_of(steps_[step])) {
        if (access.reads) is_read[access.operand->slot] = true;
      }
    }
  }

  static bool touches(const Step& step, SlotIndex slot) {
    const auto is_of = [slot](const Operand& operand) {
      return operand.kind == Operand::kView && operand.slot == slot;
    };
    return std::ranges::any_of(step.results, is_of) || std::ranges::any_of(step.operands, is_of) ||
           is_of(step.predicate);
  }

  // True if the step may write to the parameter what it writes to the temporary, even if it reads the parameter.
  bool may_write_over(const Step& step, SlotIndex temporary, SlotIndex parameter) const {
    const KernelContract* contract = step.kind == StepKind::kLaunch ? builtin_contract(step.name) : nullptr;
    const std::vector<ContractPosition> positions =
        contract != nullptr ? contract_positions(*contract, step) : std::vector<ContractPosition>{};
    for (size_t r = 0; r < step.results.size(); ++r) {
      if (step.results[r].kind != Operand::kView) continue;
      if (step.results[r].slot == parameter) return false;
      if (step.results[r].slot != temporary) continue;
      Operand there = step.results[r];
      there.slot = parameter;
      for (size_t o = 0; o < step.operands.size(); ++o) {
        if (step.operands[o].kind != Operand::kView || step.operands[o].slot != parameter) continue;
        const bool allowed =
            step.kind == StepKind::kCopy ||
            (!positions.empty() && may_be(*contract, positions[r], positions[step.results.size() + o]));
        if (!allowed || !same_place(there, step.operands[o])) return false;
      }
    }
    return std::ranges::none_of(step.operands, [&](const Operand& operand) {
      return operand.kind == Operand::kView && operand.slot == temporary;
    });
  }

  // True for `parameter = copy temporary`, of the whole of both.
  bool is_copy_to_parameter(size_t copy) const {
    const Step& last = steps_[copy];
    if (removed_[copy] || last.kind != StepKind::kCopy) return false;
    const SlotIndex to = last.results[0].slot, from = last.operands[0].slot;
    const Slot &parameter = program_.slots()[to], &temporary = program_.slots()[from];
    return parameter.kind == SlotKind::kParameter && parameter.donated && temporary.kind == SlotKind::kTemporary &&
           is_whole(last.results[0], parameter) && is_whole(last.operands[0], temporary);
  }

  // Makes all steps that touch the temporary touch the parameter instead. Returns false if the copy must stay.
  bool remove_copy(size_t copy) {
    const SlotIndex to = steps_[copy].results[0].slot, from = steps_[copy].operands[0].slot;
    if (std::ranges::count(returned_, from) != 0) return false;
    size_t first = copy;
    for (size_t step = 0; step < steps_.size(); ++step) {
      if (removed_[step] || step == copy || !touches(steps_[step], from)) continue;
      if (step > copy) return false;
      first = std::min(first, step);
    }
    if (first == copy || !may_write_over(steps_[first], from, to)) return false;
    if (is_touched_between(first, copy, to)) {
      // The parameter is still needed: the one step that computes the temporary moves behind those that need it.
      if (!can_move(first, copy, from)) return false;
      steps_[copy] = std::move(steps_[first]);
      removed_[first] = true;
      rename(steps_[copy], from, to);
      return true;
    }
    removed_[copy] = true;
    for (size_t step = first; step < copy; ++step) rename(steps_[step], from, to);
    const Step& begin = steps_[first];
    const bool does_nothing = begin.kind == StepKind::kCopy && same_place(begin.results[0], begin.operands[0]);
    removed_[first] = removed_[first] || does_nothing;
    return true;
  }

  // Returns the temporary as the result that the parameter was, if both have one type and sizes and no later step
  // touches them.
  void return_instead(size_t copy) {
    const SlotIndex to = steps_[copy].results[0].slot, from = steps_[copy].operands[0].slot;
    const Slot &parameter = program_.slots()[to], &temporary = program_.slots()[from];
    const auto result = std::ranges::find(returned_, to);
    if (result == returned_.end() || parameter.dtype != temporary.dtype || parameter.sizes != temporary.sizes ||
        std::ranges::count(returned_, from) != 0 || is_touched_between(copy, steps_.size(), to) ||
        is_touched_between(copy, steps_.size(), from)) {
      return;
    }
    *result = from;
    removed_[copy] = true;
  }

  bool is_touched_between(size_t first, size_t last, SlotIndex slot) const {
    for (size_t step = first + 1; step < last; ++step) {
      if (!removed_[step] && touches(steps_[step], slot)) return true;
    }
    return false;
  }

  // True if the step is a launch that writes the temporary alone, and computes the same just before the later one.
  bool can_move(size_t step, size_t later, SlotIndex temporary) const {
    const Step& moved = steps_[step];
    if (moved.kind != StepKind::kLaunch || !is_plain(moved) || moved.results.size() != 1 ||
        is_touched_between(step, later, temporary)) {
      return false;
    }
    for (size_t between = step + 1; between < later; ++between) {
      if (removed_[between]) continue;
      for (const Access& access : accesses_of(steps_[between])) {
        if (access.writes && touches(moved, access.operand->slot)) return false;
      }
    }
    return true;
  }

  static void rename(Step& step, SlotIndex from, SlotIndex to) {
    const auto rename_in = [&](Operand& operand) {
      if (operand.kind == Operand::kView && operand.slot == from) operand.slot = to;
    };
    std::ranges::for_each(step.results, rename_in);
    std::ranges::for_each(step.operands, rename_in);
    rename_in(step.predicate);
  }

  // Builds the program anew. Slots that nothing touches any more are left out, except parameters and results.
  SharedProgram rebuilt() {
    std::vector<bool> is_touched(program_.slots().size());
    for (size_t step = 0; step < steps_.size(); ++step) {
      if (removed_[step]) continue;
      for (const Access& access : accesses_of(steps_[step])) is_touched[access.operand->slot] = true;
    }
    ProgramBuilder builder(program_.name());
    std::vector<SlotIndex> slots(program_.slots().size());
    for (SlotIndex index = 0; index < slots.size(); ++index) {
      const Slot& slot = program_.slots()[index];
      const bool is_given = slot.kind == SlotKind::kParameter || slot.kind == SlotKind::kResult;
      if (is_given || is_touched[index]) slots[index] = builder.slot_like(slot, slot.name);
    }
    for (const SlotIndex result : returned_) builder.returns(slots[result]);
    for (size_t index = 0; index < steps_.size(); ++index) {
      if (removed_[index]) continue;
      Step& step = steps_[index];
      const auto renumber = [&](Operand& operand) {
        if (operand.kind == Operand::kView) operand.slot = slots[operand.slot];
      };
      std::ranges::for_each(step.results, renumber);
      std::ranges::for_each(step.operands, renumber);
      renumber(step.predicate);
      builder.add(std::move(step));
    }
    return std::move(builder).build();
  }

  const Program& program_;
  const Copies copies_;
  std::vector<Step> steps_;
  std::vector<bool> removed_;
  std::vector<SlotIndex> returned_;
};

}  // namespace

SharedProgram simplify(const Program& program, Copies copies) {
  return Simplification(program, copies).run();
}

}  // namespace mydev::program
