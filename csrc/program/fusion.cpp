#include "program/fusion.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/spec/contract.h"
#include "program/access.h"
#include "program/builder.h"

namespace mydev::program {

namespace {

bool is_pointwise(const Step& step) {
  if (step.kind != StepKind::kLaunch || step.lane != 0 || !step.after.empty()) return false;
  const KernelContract* contract = builtin_contract(step.name);
  if (contract == nullptr || !contract->is_pointwise()) return false;
  const auto is_plain = [](const ContractOperand& operand) {
    return !operand.is_list && !operand.is_updated && operand.layout == ContractLayout::kStrided;
  };
  return std::ranges::all_of(contract->results, is_plain) && std::ranges::all_of(contract->operands, is_plain);
}

// What a run of steps does with a slot.
struct Use {
  const Operand* view = nullptr;  // one of it
  bool several = false;           // there are other views
  bool read_first = false;        // what it holds before the run is read
  bool written = false;
};

// Launches that follow each other and can be computed tile by tile; or a step that none goes with.
class Run {
 public:
  explicit Run(const Program& program) : program_(program) {}

  // Appends the step, unless it does not go with those before it.
  bool add(const Step& step) {
    if (!is_pointwise(step) || (steps_ != 0 && sizes_ == nullptr)) return false;
    Run longer = *this;
    const auto fits = [&](const Operand& operand, bool writes) { return longer.fits(operand, writes); };
    // A step reads before it writes.
    if (!std::ranges::all_of(step.operands, [&](const Operand& operand) { return fits(operand, false); }) ||
        !std::ranges::all_of(step.results, [&](const Operand& result) { return fits(result, true); })) {
      return false;
    }
    uses_ = std::move(longer.uses_);
    sizes_ = longer.sizes_;
    ++steps_;
    return true;
  }

  void begin_with(const Step& step) {
    if (!add(step)) steps_ = 1;
  }

  size_t steps() const noexcept { return steps_; }
  const std::map<SlotIndex, Use>& uses() const noexcept { return uses_; }

 private:
  bool fits(const Operand& operand, bool writes) {
    if (operand.kind == Operand::kAbsent) return false;
    if (sizes_ == nullptr) sizes_ = &operand.sizes;
    if (operand.sizes != *sizes_) return false;
    if (operand.kind == Operand::kNumber) return true;
    Use& use = uses_[operand.slot];
    const bool same = use.view == nullptr || (same_place(*use.view, operand) && use.view->dtype == operand.dtype);
    use.several = use.several || !same;
    use.read_first = use.read_first || (!writes && !use.written);
    use.written = use.written || writes;
    use.view = &operand;
    // What is written is the same elements for all, and all of the slot, unless the slot has held something before.
    const bool covers = is_dense(operand) && bytes_touched(operand).second - bytes_touched(operand).first ==
                                                 static_cast<int64_t>(program_.slots()[operand.slot].bytes());
    const bool is_parameter = program_.slots()[operand.slot].kind == SlotKind::kParameter;
    return !use.written || (!use.several && (covers || is_parameter));
  }

  const Program& program_;
  std::map<SlotIndex, Use> uses_;
  const std::vector<int64_t>* sizes_ = nullptr;
  size_t steps_ = 0;
};

class Fusion {
 public:
  Fusion(const Program& program, std::map<const Program*, SharedProgram>& fused, std::set<std::string>& names)
      : program_(program), builder_(program.name()), fused_(fused), names_(names) {}

  // nullptr: nothing is fused.
  SharedProgram run() {
    find_runs();
    const bool changes =
        std::ranges::any_of(runs_, [](const Run& run) { return run.steps() > 1; }) ||
        std::ranges::any_of(program_.steps(), [&](const Step& step) {
          return replacement(step.program) != step.program || replacement(step.otherwise) != step.otherwise;
        });
    if (!changes) return nullptr;
    find_inner_temporaries();
    for (SlotIndex slot = 0; slot < program_.slots().size(); ++slot) add_slot(slot);
    StepIndex step = 0;
    for (const Run& run : runs_) {
      for (size_t i = 0; i < run.steps(); ++i) steps_.push_back(builder_.num_steps());
      if (run.steps() > 1) {
        add_fused(run, step);
      } else {
        add_step(program_.steps()[step]);
      }
      step += static_cast<StepIndex>(run.steps());
    }
    for (const SlotIndex result : program_.results()) builder_.returns(slots_[result]);
    return std::move(builder_).build();
  }

 private:
  SharedProgram replacement(const SharedProgram& called) const {
    const auto found = fused_.find(called.get());
    return found != fused_.end() ? found->second : called;
  }

  // Each step is of a run, if only of one of a single step.
  void find_runs() {
    for (const Step& step : program_.steps()) {
      if (!runs_.empty() && runs_.back().add(step)) continue;
      runs_.emplace_back(program_).begin_with(step);
    }
  }

  // Temporaries that no step of another run touches.
  void find_inner_temporaries() {
    std::vector<std::set<size_t>> runs_of(program_.slots().size());
    StepIndex step = 0;
    for (size_t run = 0; run < runs_.size(); ++run) {
      for (size_t i = 0; i < runs_[run].steps(); ++i) {
        for (const Access& access : accesses_of(program_.steps()[step])) runs_of[access.operand->slot].insert(run);
        ++step;
      }
    }
    inner_.resize(program_.slots().size());
    for (SlotIndex slot = 0; slot < inner_.size(); ++slot) {
      inner_[slot] = program_.slots()[slot].kind == SlotKind::kTemporary && runs_of[slot].size() == 1 &&
                     runs_[*runs_of[slot].begin()].steps() > 1;
    }
  }

  void add_slot(SlotIndex index) {
    const Slot& slot = program_.slots()[index];
    slots_.push_back(UINT32_MAX);
    if (inner_[index]) return;
    switch (slot.kind) {
      case SlotKind::kParameter:
        slots_[index] = builder_.parameter(slot.dtype, slot.sizes, slot.donated, slot.name);
        return;
      case SlotKind::kConstant:
        slots_[index] = builder_.constant(slot.dtype, slot.sizes, slot.data, slot.name);
        return;
      default:
        slots_[index] = builder_.temporary(slot.dtype, slot.sizes, slot.name);
    }
  }

  static void rename(Operand& operand, const std::vector<SlotIndex>& slots) {
    if (operand.kind == Operand::kView) operand.slot = slots[operand.slot];
  }
  static Step renamed(const Step& step, const std::vector<SlotIndex>& slots) {
    Step copy = step;
    for (Operand& result : copy.results) rename(result, slots);
    for (Operand& operand : copy.operands) rename(operand, slots);
    rename(copy.predicate, slots);
    return copy;
  }

  void add_step(const Step& step) {
    Step copy = renamed(step, slots_);
    copy.program = replacement(step.program);
    copy.otherwise = replacement(step.otherwise);
    std::set<StepIndex> after;
    for (const StepIndex earlier : step.after) after.insert(steps_[earlier]);
    copy.after.assign(after.begin(), after.end());
    builder_.add(std::move(copy));
  }

  // The run as a program, and the step that calls it.
  void add_fused(const Run& run, StepIndex first) {
    std::string name;
    for (int number = 0; name.empty() || !names_.insert(name).second; ++number) {
      name = program_.name() + "_fused" + std::to_string(number);
    }
    ProgramBuilder body(name);
    std::vector<SlotIndex> inside(program_.slots().size());
    std::vector<SlotIndex> returned;
    Step call;
    call.kind = StepKind::kFused;
    for (const auto& [index, use] : run.uses()) {
      const Slot& slot = program_.slots()[index];
      const bool is_own_result = use.written && !use.read_first && slot.kind != SlotKind::kParameter;
      if (inner_[index] || is_own_result) {
        inside[index] = body.temporary(slot.dtype, slot.sizes, slot.name);
      } else {
        inside[index] = body.parameter(slot.dtype, slot.sizes, use.written, slot.name);
      }
      if (inner_[index]) continue;
      (is_own_result ? call.results : call.operands).push_back(builder_.view(slots_[index]));
      if (use.written) returned.push_back(inside[index]);
    }
    for (const SlotIndex slot : returned) body.returns(slot);
    for (size_t i = 0; i < run.steps(); ++i) body.add(renamed(program_.steps()[first + i], inside));
    call.program = std::move(body).build();
    builder_.add(std::move(call));
  }

  const Program& program_;
  ProgramBuilder builder_;
  std::map<const Program*, SharedProgram>& fused_;  // of called programs
  std::set<std::string>& names_;                    // of all programs
  std::vector<Run> runs_;
  std::vector<bool> inner_;       // of each slot: a temporary of one run alone
  std::vector<SlotIndex> slots_;  // what each slot became
  std::vector<StepIndex> steps_;  // what each step became
};

}  // namespace

SharedProgram fuse(const SharedProgram& program) {
  std::map<const Program*, SharedProgram> fused;
  std::set<std::string> names;
  const std::vector<const Program*> programs = programs_of(*program);
  for (const Program* each : programs) names.insert(each->name());
  // Executors take such a body as they take a fused step's.
  const auto is_one_run = [](const Program& body) {
    return is_fusible(body) && std::ranges::count(body.slots(), SlotKind::kConstant, &Slot::kind) == 0;
  };
  std::set<const Program*> repeated_runs;
  for (const Program* each : programs) {
    for (const Step& step : each->steps()) {
      if (step.kind == StepKind::kRepeat && is_one_run(*step.program)) repeated_runs.insert(step.program.get());
    }
  }
  for (const Program* each : programs) {
    if (repeated_runs.contains(each)) continue;
    if (SharedProgram result = Fusion(*each, fused, names).run()) fused.emplace(each, std::move(result));
  }
  const auto found = fused.find(program.get());
  return found != fused.end() ? found->second : program;
}

bool is_fusible(const Program& program) {
  Run run(program);
  return std::ranges::all_of(program.steps(), [&](const Step& step) { return run.add(step); });
}

}  // namespace mydev::program
