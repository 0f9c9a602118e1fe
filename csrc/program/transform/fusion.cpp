#include "program/transform/fusion.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "program/transform/fusible_run.h"
#include "program/transform/outline.h"
#include "program/transform/small_steps.h"

namespace mydev::program {

namespace {

// Each step belongs to a run, which may have a single step.
std::vector<FusibleRun> find_runs(const Program& program) {
  std::vector<FusibleRun> runs;
  for (const Step& step : program.steps()) {
    if (!runs.empty() && runs.back().add(step)) continue;
    runs.emplace_back(program).begin_with(step);
  }
  return runs;
}

OutlinedRun fused_call(const Program& program, const Outliner& outliner, const FusibleRun& run, StepIndex first,
                       std::set<std::string>& names) {
  std::map<SlotIndex, SlotUse> uses;
  for (const auto& [slot, use] : run.uses()) uses[slot] = {use.read_first, use.written};
  std::vector<Step> steps;
  const auto end = static_cast<StepIndex>(first + run.steps());
  for (StepIndex step = first; step < end; ++step) steps.push_back(run.in_its_sizes(program.steps()[step]));
  return outliner.call_of({first, end}, new_name(program.name() + "_fused", names), StepKind::kFused, uses, steps,
                          Constants::kGiven);
}

// Returns nullptr if nothing is fused. `fused` has what called programs became.
SharedProgram fuse(const Program& program, const std::map<const Program*, SharedProgram>& fused,
                   std::set<std::string>& names) {
  const std::vector<FusibleRun> runs = find_runs(program);
  const bool changes = std::ranges::any_of(runs, [](const FusibleRun& run) { return run.steps() > 1; }) ||
                       std::ranges::any_of(program.steps(), [&](const Step& step) {
                         return fused.contains(step.program.get()) || fused.contains(step.otherwise.get());
                       });
  if (!changes) return nullptr;
  const Outliner outliner(program);
  std::vector<OutlinedRun> calls;
  StepIndex step = 0;
  for (const FusibleRun& run : runs) {
    if (run.steps() > 1) calls.push_back(fused_call(program, outliner, run, step, names));
    step += static_cast<StepIndex>(run.steps());
  }
  return outliner.with(calls, fused);
}

}  // namespace

SharedProgram fuse(const SharedProgram& program) {
  return fuse_runs(gather_small_steps(program));
}

SharedProgram fuse_runs(const SharedProgram& program) {
  std::map<const Program*, SharedProgram> fused;
  std::set<std::string> names;
  const std::vector<const Program*> programs = programs_of(*program);
  for (const Program* each : programs) names.insert(each->name());
  std::set<const Program*> kept;
  for (const Program* each : programs) {
    for (const Step& step : each->steps()) {
      const bool is_repeated_run = step.kind == StepKind::kRepeat && FusibleRun::is_repeatable(*step.program);
      if (is_repeated_run || step.executable != nullptr) kept.insert(step.program.get());
      if (step.kind == StepKind::kFused) {
        const std::vector<const Program*> inside = programs_of(*step.program);
        kept.insert(inside.begin(), inside.end());
      }
    }
  }
  for (const Program* each : programs) {
    if (kept.contains(each)) continue;
    if (SharedProgram result = fuse(*each, fused, names)) fused.emplace(each, std::move(result));
  }
  const auto found = fused.find(program.get());
  return found != fused.end() ? found->second : program;
}

}  // namespace mydev::program
