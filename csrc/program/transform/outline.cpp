#include "program/transform/outline.h"

#include <algorithm>
#include <utility>

#include "kernels/spec/contract.h"
#include "program/ir/access.h"
#include "program/ir/builder.h"

namespace mydev::program {

namespace {

void rename(Operand& operand, const std::vector<SlotIndex>& slots) {
  if (operand.kind == Operand::kView) operand.slot = slots[operand.slot];
}

Step renamed(const Step& step, const std::vector<SlotIndex>& slots) {
  Step copy = step;
  for (Operand& result : copy.results) rename(result, slots);
  for (Operand& operand : copy.operands) rename(operand, slots);
  rename(copy.predicate, slots);
  return copy;
}

SharedProgram replacement(const SharedProgram& called, const std::map<const Program*, SharedProgram>& replaced) {
  const auto found = replaced.find(called.get());
  return found != replaced.end() ? found->second : called;
}

Operand whole(const Program& program, SlotIndex slot) {
  const Slot& viewed = program.slots()[slot];
  return {.kind = Operand::kView,
          .slot = slot,
          .dtype = viewed.dtype,
          .sizes = viewed.sizes,
          .strides = dense_strides(viewed.sizes)};
}

// True if the step may read what a result held: only contracts say that it does not.
bool may_read_result(const Step& step, const Operand* result) {
  if (step.kind != StepKind::kLaunch) return false;
  const KernelContract* contract = builtin_contract(step.name);
  if (contract == nullptr) return true;
  const std::vector<ContractPosition> positions = contract_positions(*contract, step);
  const auto index = static_cast<size_t>(result - step.results.data());
  return positions.empty() || contract->results[positions[index].operand].is_updated;
}

bool covers(const Operand& view, const Slot& slot) {
  const auto [begin, end] = bytes_touched(view);
  return is_dense(view) && end - begin == static_cast<int64_t>(slot.bytes());
}

}  // namespace

Outliner::Outliner(const Program& program) : program_(program), touching_(program.slots().size()) {
  for (StepIndex step = 0; step < program.steps().size(); ++step) {
    for (const Access& access : accesses_of(program.steps()[step])) {
      std::vector<StepIndex>& steps = touching_[access.operand->slot];
      if (steps.empty() || steps.back() != step) steps.push_back(step);
    }
  }
}

std::map<SlotIndex, SlotUse> Outliner::uses_of(StepRange run) const {
  std::map<SlotIndex, SlotUse> uses;
  std::map<SlotIndex, bool> covered;
  for (StepIndex index = run.first; index < run.end; ++index) {
    const Step& step = program_.steps()[index];
    const std::vector<Access> accesses = accesses_of(step);
    for (const Access& access : accesses) {
      const SlotIndex slot = access.operand->slot;
      const bool reads =
          access.reads || !covers(*access.operand, program_.slots()[slot]) || may_read_result(step, access.operand);
      uses[slot].read_first |= reads && !covered[slot];
    }
    for (const Access& access : accesses) {
      if (!access.writes) continue;
      uses[access.operand->slot].written = true;
      covered[access.operand->slot] |= covers(*access.operand, program_.slots()[access.operand->slot]);
    }
  }
  // Before the first step that touches them these hold nothing.
  for (auto& [slot, use] : uses) {
    const SlotKind kind = program_.slots()[slot].kind;
    const bool is_first = run.contains(touching_[slot].front());
    if ((kind == SlotKind::kTemporary || kind == SlotKind::kResult) && is_first) use.read_first = false;
  }
  return uses;
}

bool Outliner::is_inner(SlotIndex slot, StepRange run) const {
  return program_.slots()[slot].kind == SlotKind::kTemporary && !touching_[slot].empty() &&
         run.contains(touching_[slot].front()) && run.contains(touching_[slot].back());
}

// `run_of` has the run of each step, or nullptr.
bool Outliner::is_dropped(SlotIndex slot, std::span<const OutlinedRun* const> run_of) const {
  const std::vector<StepIndex>& steps = touching_[slot];
  if (steps.empty()) return false;
  if (program_.slots()[slot].kind == SlotKind::kConstant) {
    return program_.slots()[slot].devices == 1 && std::ranges::all_of(steps, [&](StepIndex step) {
             return run_of[step] != nullptr && run_of[step]->constants == Constants::kInside;
           });
  }
  const OutlinedRun* run = run_of[steps.front()];
  return run != nullptr && is_inner(slot, run->steps);
}

OutlinedRun Outliner::call_of(StepRange run, std::string name, StepKind kind, const std::map<SlotIndex, SlotUse>& uses,
                              std::span<const Step> steps, Constants constants) const {
  ProgramBuilder body(std::move(name));
  std::vector<SlotIndex> inside(program_.slots().size()), returned;
  OutlinedRun outlined{run, {}, constants};
  Step& call = outlined.call;
  call.kind = kind;
  for (const auto& [index, use] : uses) {
    const Slot& slot = program_.slots()[index];
    if (constants == Constants::kInside && slot.kind == SlotKind::kConstant && slot.devices == 1) {
      inside[index] = body.slot_like(slot, slot.name);
      continue;
    }
    const bool is_inner = this->is_inner(index, run);
    const bool is_own_result = use.written && !use.read_first && slot.kind != SlotKind::kParameter;
    if (is_inner || is_own_result) {
      inside[index] = body.temporary(slot.dtype, slot.sizes, slot.name);
    } else {
      inside[index] = body.parameter(slot.dtype, slot.sizes, use.written, slot.name);
    }
    if (is_inner) continue;
    (is_own_result ? call.results : call.operands).push_back(whole(program_, index));
    if (use.written) returned.push_back(inside[index]);
  }
  for (const SlotIndex slot : returned) body.returns(slot);
  for (const Step& step : steps) body.add(renamed(step, inside));
  call.program = std::move(body).build();
  return outlined;
}

SharedProgram Outliner::with(std::span<const OutlinedRun> runs,
                             const std::map<const Program*, SharedProgram>& replaced) const {
  std::vector<const OutlinedRun*> run_of(program_.steps().size());
  for (const OutlinedRun& run : runs) {
    for (StepIndex step = run.steps.first; step < run.steps.end; ++step) run_of[step] = &run;
  }
  ProgramBuilder builder(program_.name());
  std::vector<SlotIndex> slots;
  for (SlotIndex index = 0; index < program_.slots().size(); ++index) {
    const Slot& slot = program_.slots()[index];
    slots.push_back(is_dropped(index, run_of) ? UINT32_MAX : builder.slot_like(slot, slot.name));
  }
  std::vector<StepIndex> became;  // of each step
  for (StepIndex index = 0; index < program_.steps().size();) {
    if (const OutlinedRun* run = run_of[index]) {
      index = run->steps.end;
      became.resize(index, builder.num_steps());
      builder.add(renamed(run->call, slots));
      continue;
    }
    Step copy = renamed(program_.steps()[index++], slots);
    copy.program = replacement(copy.program, replaced);
    copy.otherwise = replacement(copy.otherwise, replaced);
    std::set<StepIndex> after;
    for (const StepIndex earlier : copy.after) after.insert(became[earlier]);
    copy.after.assign(after.begin(), after.end());
    became.push_back(builder.num_steps());
    builder.add(std::move(copy));
  }
  for (const SlotIndex result : program_.results()) builder.returns(slots[result]);
  return std::move(builder).build();
}

std::string new_name(const std::string& stem, std::set<std::string>& names) {
  for (int number = 0;; ++number) {
    std::string name = stem + std::to_string(number);
    if (names.insert(name).second) return name;
  }
}

}  // namespace mydev::program
