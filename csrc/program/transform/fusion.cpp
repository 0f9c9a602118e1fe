#include "program/transform/fusion.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "program/ir/access.h"
#include "program/ir/builder.h"
#include "program/transform/fusible_run.h"

namespace mydev::program {

namespace {

class Fusion {
 public:
  Fusion(const Program& program, std::map<const Program*, SharedProgram>& fused, std::set<std::string>& names)
      : program_(program), builder_(program.name()), fused_(fused), names_(names) {}

  // Returns nullptr if nothing is fused.
  SharedProgram run() {
    find_runs();
    const bool changes =
        std::ranges::any_of(runs_, [](const FusibleRun& run) { return run.steps() > 1; }) ||
        std::ranges::any_of(program_.steps(), [&](const Step& step) {
          return replacement(step.program) != step.program || replacement(step.otherwise) != step.otherwise;
        });
    if (!changes) return nullptr;
    find_inner_temporaries();
    for (SlotIndex slot = 0; slot < program_.slots().size(); ++slot) add_slot(slot);
    StepIndex step = 0;
    for (const FusibleRun& run : runs_) {
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

  // Each step belongs to a run, which may have a single step.
  void find_runs() {
    for (const Step& step : program_.steps()) {
      if (!runs_.empty() && runs_.back().add(step)) continue;
      runs_.emplace_back(program_).begin_with(step);
    }
  }

  // Finds temporaries that no step of another run touches.
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
        break;
      case SlotKind::kConstant:
        slots_[index] = builder_.constant(slot.dtype, slot.sizes, slot.data, slot.name);
        break;
      default:
        slots_[index] = builder_.temporary(slot.dtype, slot.sizes, slot.name);
    }
    if (slot.on_host) builder_.place_on_host(slots_[index]);
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

  // Adds the step that calls the run, as a program of its own.
  void add_fused(const FusibleRun& run, StepIndex first) {
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
    for (size_t i = 0; i < run.steps(); ++i) body.add(renamed(run.in_its_sizes(program_.steps()[first + i]), inside));
    call.program = std::move(body).build();
    builder_.add(std::move(call));
  }

  const Program& program_;
  ProgramBuilder builder_;
  std::map<const Program*, SharedProgram>& fused_;  // of called programs
  std::set<std::string>& names_;                    // of all programs
  std::vector<FusibleRun> runs_;
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
  // Executors treat such a body like that of a fused step.
  const auto is_one_run = [](const Program& body) {
    return FusibleRun::of(body) && std::ranges::count(body.slots(), SlotKind::kConstant, &Slot::kind) == 0;
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

}  // namespace mydev::program
