#include "program/transform/fused_form.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "program/text/text.h"
#include "program/transform/form_attributes.h"
#include "program/transform/fusible_run.h"

namespace mydev::program {

namespace {

// True if each operand that the called program writes is given to it once, and moves by at least its size or not at
// all.
bool has_iterations_apart(const Step& step) {
  const Program& program = *step.program;
  for (size_t i = 0; i < step.operands.size(); ++i) {
    const Slot& slot = program.slots()[program.parameters()[i]];
    if (!slot.donated) continue;
    if (std::ranges::count(step.operands, step.operands[i].slot, &Operand::slot) != 1) return false;
    const int64_t advance = step.advance(i);
    if (advance != 0 && std::abs(advance) < static_cast<int64_t>(slot.bytes())) return false;
  }
  return true;
}

// The index of each slot of the called program: first its own results, then its parameters, then its temporaries.
class SlotBindings {
 public:
  explicit SlotBindings(const Program& program) : of_(program.slots().size()) {
    int64_t next = 0;
    for (const SlotIndex slot : program.own_results()) of_[slot] = next++;
    for (const SlotIndex slot : program.parameters()) of_[slot] = next++;
    for (SlotIndex slot = 0; slot < of_.size(); ++slot) {
      if (program.slots()[slot].kind == SlotKind::kTemporary) of_[slot] = next++;
    }
  }
  int64_t of(const Operand& operand) const {
    if (operand.kind == Operand::kNumber) return kNumberBinding;
    return operand.kind == Operand::kAbsent ? kAbsentBinding : of_[operand.slot];
  }

 private:
  std::vector<int64_t> of_;
};

// One step; its attributes borrow from it.
struct StepForm {
  std::vector<int64_t> bindings, dtypes, offsets, strides;
  std::vector<mydev_attribute> numbers, own, entries;

  StepForm(const Step& step, const SlotBindings& slots, size_t rank) {
    bool is_outer = false;
    for (const auto* operands : {&step.results, &step.operands}) {
      for (const Operand& operand : *operands) {
        bindings.push_back(slots.of(operand));
        dtypes.push_back(operand.dtype);
        offsets.push_back(static_cast<int64_t>(operand.offset));
        std::vector<int64_t> full = operand.strides;
        full.resize(rank);
        strides.insert(strides.end(), full.begin(), full.end());
        if (operand.kind == Operand::kNumber) numbers.push_back(number_attribute(operand));
        is_outer = is_outer || (operand.kind != Operand::kAbsent && operand.sizes.size() < rank);
      }
    }
    own.assign(step.attributes.get().begin(), step.attributes.get().end());
    entries = {int_attribute("results", static_cast<int64_t>(step.results.size())),
               bool_attribute("is_outer", is_outer),
               int_array_attribute("bindings", bindings),
               int_array_attribute("dtypes", dtypes),
               int_array_attribute("offsets", offsets),
               int_array_attribute("strides", strides),
               dictionary_attribute("numbers", numbers),
               dictionary_attribute("attributes", own)};
  }
};

}  // namespace

std::optional<Attributes> fused_form(const Step& step) {
  const Program& program = *step.program;
  const bool repeats = step.kind == StepKind::kRepeat;
  if (program.steps().empty() || std::ranges::count(program.slots(), SlotKind::kConstant, &Slot::kind) != 0) {
    return std::nullopt;
  }
  const std::optional<FusibleRun> run = FusibleRun::of(program);
  if (!run) return std::nullopt;
  const SlotBindings bindings(program);
  std::deque<Step> views;  // whose attributes are borrowed
  std::deque<StepForm> forms;
  std::vector<mydev_attribute> steps;
  std::string body = repeats ? std::to_string(step.count) + " times: " : "";
  for (const Step& launch : program.steps()) {
    const Step& view = views.emplace_back(run->in_its_sizes(launch));
    steps.push_back(
        dictionary_attribute(launch.name.c_str(), forms.emplace_back(view, bindings, run->sizes().size()).entries));
    body += (forms.size() == 1 ? "" : "; ") + print_step(program, launch);
  }
  mydev_attribute text{"body", MYDEV_ATTRIBUTE_STRING, 0, static_cast<uint32_t>(body.size()), {}};
  text.value.bytes = body.data();
  const std::vector<mydev_attribute> attributes = {
      text,
      int_array_attribute("sizes", run->sizes()),
      int_attribute("outer_rank", static_cast<int64_t>(run->outer_rank())),
      int_attribute("iterations", repeats ? static_cast<int64_t>(step.count) : 1),
      int_array_attribute("advances", step.advances),
      bool_attribute("apart", !repeats || has_iterations_apart(step)),
      dictionary_attribute("steps", steps)};
  return Attributes(attributes);
}

}  // namespace mydev::program
