#include "program/transform/small_steps.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "kernels/spec/contract.h"
#include "program/ir/access.h"
#include "program/ir/launch_frame.h"
#include "program/transform/form_attributes.h"
#include "program/transform/fusible_run.h"

namespace mydev::program {

namespace {

// A constant of a body that has more stays where all devices' constants are.
constexpr uint64_t kMostConstantBytes = 16 * kMostSmallElements;

bool calls_another(const Step& step) {
  return step.program != nullptr;
}

bool has_few_elements(const Operand& operand) {
  if (operand.kind != Operand::kView) return true;
  int64_t elements = 1;
  for (const int64_t size : operand.sizes) {
    if (__builtin_mul_overflow(elements, size, &elements)) return false;
  }
  return elements <= kMostSmallElements;
}

// The longest runs of small steps that are worth one step of their own.
std::vector<StepRange> small_runs(const Program& program) {
  std::vector<StepRange> runs;
  const auto num_steps = static_cast<StepIndex>(program.steps().size());
  for (StepIndex step = 0; step < num_steps; ++step) {
    if (!is_small(program, program.steps()[step])) continue;
    if (runs.empty() || runs.back().end != step) runs.push_back({step, step});
    runs.back().end = step + 1;
  }
  std::erase_if(runs, [&](const StepRange& run) {
    const auto steps = std::span(program.steps()).subspan(run.first, run.end - run.first);
    // Tiles are as good for what is one run, and for a loop of one between copies.
    const auto is_loop_of_one_run = [](const Step& step) {
      return step.kind == StepKind::kRepeat && FusibleRun::is_repeatable(*step.program);
    };
    const auto is_left = [&](const Step& step) {
      return step.kind == StepKind::kCopy || step.kind == StepKind::kFill || is_loop_of_one_run(step);
    };
    if (std::ranges::all_of(steps, is_left) && std::ranges::count_if(steps, is_loop_of_one_run) == 1) return true;
    if (steps.size() == 1) return !calls_another(steps[0]) || steps[0].kind == StepKind::kFused;
    FusibleRun tiles(program);
    return std::ranges::all_of(steps, [&](const Step& step) { return tiles.add(step); });
  });
  return runs;
}

// The attributes of the form, and all that they borrow.
class SmallForm {
 public:
  explicit SmallForm(const Step& step) {
    const Program& program = *step.program;
    Slots slots(program.slots().size());
    for (const SlotIndex slot : program.own_results()) slots[slot] = {next_binding_++, 0};
    for (const SlotIndex slot : program.parameters()) slots[slot] = {next_binding_++, 0};
    add_program(program, slots);
  }

  Attributes attributes() {
    mydev_attribute text{"body", MYDEV_ATTRIBUTE_STRING, 0, static_cast<uint32_t>(body_.size()), {}};
    text.value.bytes = body_.data();
    const std::vector<mydev_attribute> all = {text, int_array_attribute("memory", memory_),
                                              dictionary_attribute("constants", constants_),
                                              dictionary_attribute("steps", steps_)};
    return Attributes(all);
  }

 private:
  // The beginning of a slot, in a binding of the form.
  struct Location {
    int64_t binding = 0, offset = 0;
  };
  using Slots = std::vector<Location>;
  enum Memory : int64_t { kTemporary, kConstant, kMoving };

  int64_t add_memory(Memory kind, int64_t first, int64_t second) {
    memory_.insert(memory_.end(), {kind, first, second});
    return next_binding_++;
  }

  const std::vector<int64_t>& keep(std::vector<int64_t> numbers) { return ints_.emplace_back(std::move(numbers)); }
  std::vector<mydev_attribute>& keep(std::vector<mydev_attribute> entries) {
    return entries_.emplace_back(std::move(entries));
  }
  mydev_attribute ints(const char* name, std::vector<int64_t> numbers) {
    return int_array_attribute(name, keep(std::move(numbers)));
  }
  static mydev_attribute bytes(const char* name, std::span<const std::byte> data) {
    mydev_attribute attribute{name, MYDEV_ATTRIBUTE_ARRAY, MYDEV_U8, static_cast<uint32_t>(data.size()), {}};
    attribute.value.data = data.data();
    return attribute;
  }
  // Returns the entries, which stay where they are.
  std::vector<mydev_attribute>& add_entry(const char* name, std::vector<mydev_attribute> entries) {
    std::vector<mydev_attribute>& kept = keep(std::move(entries));
    steps_.push_back(dictionary_attribute(name, kept));
    body_ += (body_.empty() ? "" : "; ") + std::string(name);
    return kept;
  }

  static Location location_of(const Operand& view, const Slots& slots) {
    const Location& slot = slots[view.slot];
    return {slot.binding, slot.offset + static_cast<int64_t>(view.offset)};
  }

  // The slots that no caller gives get memory of their own.
  void add_program(const Program& program, Slots slots) {
    for (SlotIndex index = 0; index < program.slots().size(); ++index) {
      const Slot& slot = program.slots()[index];
      const auto size = static_cast<int64_t>(slot.bytes());
      if (slot.kind == SlotKind::kTemporary) slots[index] = {add_memory(kTemporary, size, 0), 0};
      if (slot.kind == SlotKind::kConstant) {
        slots[index] = {add_memory(kConstant, size, static_cast<int64_t>(constants_.size())), 0};
        constants_.push_back(bytes("constant", slot.data));
      }
    }
    for (const Step& step : program.steps()) add_step(step, slots);
  }

  void add_step(const Step& step, const Slots& slots) {
    switch (step.kind) {
      case StepKind::kLaunch:
        return add_launch(step.name.c_str(), step, slots);
      case StepKind::kCopy:
        return add_launch("mydev.copy", step, slots);
      case StepKind::kFill:
        return add_launch("fill", step, slots);
      case StepKind::kRepeat:
        return add_repeat(step, slots);
      case StepKind::kWhile:
      case StepKind::kIf:
        return add_conditional(step, slots);
      default:
        return add_body(*step.program, step, slots);
    }
  }

  void add_launch(const char* name, const Step& step, const Slots& slots) {
    std::vector<int64_t> bindings, dtypes, offsets, ranks, sizes, strides;
    std::vector<mydev_attribute> numbers;
    for (const auto* operands : {&step.results, &step.operands}) {
      for (const Operand& operand : *operands) {
        const bool is_view = operand.kind == Operand::kView;
        const Location location = is_view ? location_of(operand, slots) : Location{};
        bindings.push_back(is_view                            ? location.binding
                           : operand.kind == Operand::kNumber ? kNumberBinding
                                                              : kAbsentBinding);
        dtypes.push_back(operand.dtype);
        offsets.push_back(location.offset);
        ranks.push_back(static_cast<int64_t>(operand.sizes.size()));
        sizes.insert(sizes.end(), operand.sizes.begin(), operand.sizes.end());
        strides.insert(strides.end(), operand.strides.begin(), operand.strides.end());
        if (operand.kind == Operand::kNumber) {
          numbers.push_back(number_attribute(operand));
          strides.resize(sizes.size());
        }
      }
    }
    const mydev_frame& frame = frames_.emplace_back(step).frame();  // with the attributes that the step leaves out
    std::vector<mydev_attribute> own(frame.attributes, frame.attributes + frame.num_attributes);
    std::vector<mydev_attribute> entries = {int_attribute("results", static_cast<int64_t>(step.results.size())),
                                            ints("bindings", std::move(bindings)),
                                            ints("dtypes", std::move(dtypes)),
                                            ints("offsets", std::move(offsets)),
                                            ints("ranks", std::move(ranks)),
                                            ints("sizes", std::move(sizes)),
                                            ints("strides", std::move(strides)),
                                            dictionary_attribute("numbers", keep(std::move(numbers))),
                                            dictionary_attribute("attributes", keep(std::move(own)))};
    if (step.kind == StepKind::kFill) entries.push_back(bytes("pattern", step.pattern));
    add_entry(name, std::move(entries));
  }

  // Adds the steps of a program that the step calls.
  void add_body(const Program& body, const Step& step, const Slots& slots, const std::vector<Location>& moving = {}) {
    Slots inside(body.slots().size());
    for (size_t i = 0; i < step.operands.size(); ++i) {
      inside[body.parameters()[i]] = step.advance(i) != 0 ? moving[i] : location_of(step.operands[i], slots);
    }
    for (size_t i = 0; i < step.results.size(); ++i) {
      inside[body.own_results()[i]] = location_of(step.results[i], slots);
    }
    add_program(body, std::move(inside));
  }

  void add_repeat(const Step& step, const Slots& slots) {
    std::vector<Location> moving(step.operands.size());
    std::vector<int64_t> moves;
    for (size_t i = 0; i < step.operands.size(); ++i) {
      if (step.advance(i) == 0) continue;
      const Location from = location_of(step.operands[i], slots);
      moving[i] = {add_memory(kMoving, from.binding, from.offset), 0};
      moves.insert(moves.end(), {moving[i].binding, step.advance(i)});
    }
    std::vector<mydev_attribute>& entry =
        add_entry("repeat", {int_attribute("count", static_cast<int64_t>(step.count)), ints("moves", std::move(moves)),
                             int_attribute("end", 0)});
    add_body(*step.program, step, slots, moving);
    entry.back().value.i = next_step();
  }

  void add_conditional(const Step& step, const Slots& slots) {
    const Location byte = location_of(step.predicate, slots);
    const bool is_if = step.kind == StepKind::kIf;
    std::vector<mydev_attribute>& entry =
        add_entry(is_if ? "if" : "while", {int_attribute("binding", byte.binding), int_attribute("offset", byte.offset),
                                           int_attribute("otherwise", 0), int_attribute("end", 0)});
    add_body(*step.program, step, slots);
    entry[2].value.i = next_step();
    if (step.otherwise != nullptr) add_body(*step.otherwise, step, slots);
    entry[3].value.i = next_step();
  }

  int64_t next_step() const { return static_cast<int64_t>(steps_.size()); }

  int64_t next_binding_ = 0;
  std::string body_;
  std::vector<int64_t> memory_;
  std::vector<mydev_attribute> constants_, steps_;
  std::deque<std::vector<int64_t>> ints_;
  std::deque<std::vector<mydev_attribute>> entries_;
  std::deque<LaunchFrame> frames_;
};

}  // namespace

bool is_small(const Program& program, const Step& step) {
  if (step.lane != 0 || !step.after.empty() || step.compiled != nullptr || step.executable != nullptr) return false;
  if (std::ranges::any_of(accesses_of(step), [&](const Access& access) {
        const Slot& slot = program.slots()[access.operand->slot];
        return slot.on_host;
      })) {
    return false;
  }
  if (calls_another(step)) return is_small(*step.program) && (step.otherwise == nullptr || is_small(*step.otherwise));
  if (step.kind == StepKind::kHostCall || step.kind == StepKind::kCollective) return false;
  if (step.kind == StepKind::kLaunch && builtin_contract(step.name) == nullptr) return false;
  return std::ranges::all_of(step.results, has_few_elements) && std::ranges::all_of(step.operands, has_few_elements);
}

bool is_small(const Program& program) {
  const auto is_small_slot = [](const Slot& slot) {
    return slot.kind != SlotKind::kConstant || (slot.devices == 1 && slot.bytes() <= kMostConstantBytes);
  };
  return std::ranges::all_of(program.slots(), is_small_slot) &&
         std::ranges::all_of(program.steps(), [&](const Step& step) { return is_small(program, step); });
}

SharedProgram gather_small_steps(const SharedProgram& program) {
  std::map<const Program*, SharedProgram> replaced;
  std::set<std::string> names;
  const std::vector<const Program*> programs = programs_of(*program);
  for (const Program* each : programs) names.insert(each->name());
  for (const Program* each : programs) {
    if (each != program.get() && is_small(*each)) continue;  // becomes part of a run of those that call it
    const Outliner outliner(*each);
    std::vector<OutlinedRun> calls;
    for (const StepRange run : small_runs(*each)) {
      calls.push_back(
          outliner.call_of(run, new_name(each->name() + "_small", names), StepKind::kFused, outliner.uses_of(run),
                           std::span(each->steps()).subspan(run.first, run.end - run.first), Constants::kGiven));
    }
    const bool changes = !calls.empty() || std::ranges::any_of(each->steps(), [&](const Step& step) {
      return replaced.contains(step.program.get()) || replaced.contains(step.otherwise.get());
    });
    if (changes) replaced.emplace(each, outliner.with(calls, replaced));
  }
  const auto found = replaced.find(program.get());
  return found != replaced.end() ? found->second : program;
}

std::optional<Attributes> small_form(const Step& step) {
  if (step.kind != StepKind::kFused || !is_small(*step.program)) return std::nullopt;
  return SmallForm(step).attributes();
}

}  // namespace mydev::program
