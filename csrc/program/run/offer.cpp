#include "program/run/offer.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "program/run/interned_string.h"
#include "program/run/offered_program.h"
#include "program/transform/fusion.h"
#include "program/transform/inline.h"
#include "program/transform/outline.h"
#include "runtime/base/device_name.h"
#include "runtime/base/log.h"
#include "runtime/command/executable.h"

namespace mydev::program {

namespace {

// Programs with more constants are neither compared with others nor kept on disk.
constexpr uint64_t kMostConstants = 1 << 20;  // bytes

void log_declined(const std::string& what, const std::string& reason) {
  mydev::log(MYDEV_LOG_INFO, (what + " is not taken by the device's compiler: " + reason).c_str());
}

// " of mydev.matmul, mydev.relu and 3 more": the kernels of its launches.
std::string kernels_of(const Program& program) {
  constexpr size_t kMostNames = 4;
  std::vector<std::string> names;
  for (const Step& step : program.steps()) {
    const bool is_new = step.kind == StepKind::kLaunch && std::ranges::find(names, step.name) == names.end();
    if (is_new) names.push_back(step.name);
  }
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) text += (i == 0 ? " of " : ", ") + names[i];
  if (names.size() > kMostNames) text += " and " + std::to_string(names.size() - kMostNames) + " more";
  return text;
}

// The executables that are in use, by device and text of the program.
class Executables {
 public:
  static Executables& all() {
    static auto& executables = *new Executables;
    return executables;
  }

  // Returns nullptr if the compiler declines.
  std::shared_ptr<const Executable> of(Device& device, const Program& program) {
    uint64_t constants = 0;
    for (const Slot& slot : program.slots()) constants += slot.kind == SlotKind::kConstant ? slot.bytes() : 0;
    const OfferedProgram offered(program);
    if (constants > kMostConstants) return compile(device, program, offered, "");
    const std::pair key(device.index, offered.text());
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = known_.find(key); found != known_.end()) {
        if (auto executable = found->second.lock()) return executable;
      }
    }
    auto executable = compile(device, program, offered, key.second);
    const std::lock_guard lock(mutex_);
    std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
    if (executable != nullptr) known_.insert_or_assign(key, executable);
    return executable;
  }

 private:
  // `text`: "" if the executable is not kept on disk.
  static std::shared_ptr<const Executable> compile(Device& device, const Program& program,
                                                   const OfferedProgram& offered, std::string_view text) {
    const std::string what = "program '" + program.name() + "' of device " + device_text(device.index) +
                             ", compiled by driver '" + device.driver->name + "'" + kernels_of(program);
    std::string reason;
    const char* name = interned_string(what);
    auto executable = text.empty() ? Executable::compile(device, offered.view(), name, reason)
                                   : Executable::find_or_compile(device, offered.view(), name, text, reason);
    if (executable == nullptr) log_declined("program '" + program.name() + "'", reason);
    return executable;
  }

  std::mutex mutex_;
  std::map<std::pair<int, std::string>, std::weak_ptr<const Executable>> known_;
};

bool can_be_offered(const Program& program, const Step& step) {
  const auto is_on_device = [&](const Operand& operand) {
    return operand.kind != Operand::kView || !program.slots()[operand.slot].on_host;
  };
  const bool kind = step.kind == StepKind::kCopy || step.kind == StepKind::kFill ||
                    (step.kind == StepKind::kLaunch && step.compiled == nullptr);
  return kind && std::ranges::all_of(step.results, is_on_device) && std::ranges::all_of(step.operands, is_on_device);
}

// The longest ranges of steps that satisfy the condition.
template <typename Condition>
std::vector<StepRange> ranges_of(StepRange steps, const Condition& condition) {
  std::vector<StepRange> ranges;
  for (StepIndex step = steps.first; step < steps.end; ++step) {
    if (!condition(step)) continue;
    if (ranges.empty() || ranges.back().end != step) ranges.push_back({step, step});
    ranges.back().end = step + 1;
  }
  return ranges;
}

class Offer {
 public:
  Offer(Device& device, std::set<std::string>& names) : device_(device), names_(names) {}

  // Returns nullptr if nothing of it is taken. `replaced` has what loops' bodies became.
  SharedProgram of(const Program& program, const std::map<const Program*, SharedProgram>& replaced) {
    const Outliner outliner(program);
    const auto num_steps = static_cast<StepIndex>(program.steps().size());
    std::vector<OutlinedRun> calls;
    const auto can_be = [&](StepIndex step) { return can_be_offered(program, program.steps()[step]); };
    for (const StepRange offered : ranges_of({0, num_steps}, can_be)) {
      const std::vector<bool> taken = steps_taken(call_of(program, outliner, offered, program.name() + "_offered"));
      for (const StepRange run : ranges_of(offered, [&](StepIndex step) { return taken[step - offered.first]; })) {
        OutlinedRun call = call_of(program, outliner, run, new_name(program.name() + "_compiled", names_));
        call.call.executable = Executables::all().of(device_, *call.call.program);
        if (call.call.executable != nullptr) calls.push_back(std::move(call));
      }
    }
    const bool changes = !calls.empty() || std::ranges::any_of(program.steps(), [&](const Step& step) {
      return replaced.contains(step.program.get()) || replaced.contains(step.otherwise.get());
    });
    return changes ? outliner.with(calls, replaced) : nullptr;
  }

 private:
  static OutlinedRun call_of(const Program& program, const Outliner& outliner, StepRange run, std::string name) {
    const std::span<const Step> steps(program.steps());
    return outliner.call_of(run, std::move(name), StepKind::kCall, outliner.uses_of(run),
                            steps.subspan(run.first, run.end - run.first), Constants::kInside);
  }

  std::vector<bool> steps_taken(const OutlinedRun& run) {
    const Program& program = *run.call.program;
    const OfferedProgram offered(program);
    const mydev_programs_extension& compiler = *program_compiler_of(device_);
    std::vector<bool> taken;
    for (StepIndex step = 0; step < program.steps().size(); ++step) {
      const mydev_code code = compiler.takes(device_.index, &offered.view(), step);
      taken.push_back(code == MYDEV_OK);
      if (code == MYDEV_UNIMPLEMENTED) {
        log_declined(describe_step(program, step), device_.driver->last_error());
      } else {
        check_driver(device_, code, "asking whether the device's compiler takes a step");
      }
    }
    return taken;
  }

  Device& device_;
  std::set<std::string>& names_;
};

}  // namespace

SharedProgram offer(const SharedProgram& program, Device& device) {
  if (program_compiler_of(device) == nullptr) return program;
  std::set<std::string> names;
  const std::vector<const Program*> programs = programs_of(*program);
  for (const Program* each : programs) names.insert(each->name());
  std::map<const Program*, SharedProgram> replaced;
  Offer offer(device, names);
  std::set<const Program*> bodies;
  const auto offer_body = [&](const SharedProgram& body) {
    if (body == nullptr || !bodies.insert(body.get()).second) return;
    if (SharedProgram result = offer.of(*inline_calls(body), replaced)) replaced.emplace(body.get(), std::move(result));
  };
  for (const Program* each : programs) {  // those that others call come first
    for (const Step& step : each->steps()) {
      if (step.kind != StepKind::kRepeat && step.kind != StepKind::kWhile && step.kind != StepKind::kIf) continue;
      offer_body(step.program);
      offer_body(step.otherwise);
    }
  }
  const SharedProgram result = offer.of(*inline_calls(program), replaced);
  return result != nullptr ? fuse(result) : program;
}

}  // namespace mydev::program
