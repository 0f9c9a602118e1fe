#include "program/run/offered_program.h"

#include "program/text/text.h"
#include "runtime/base/status.h"

namespace mydev::program {

namespace {

mydev_slot_kind kind_of(const Slot& slot) {
  switch (slot.kind) {
    case SlotKind::kParameter:
      return MYDEV_SLOT_PARAMETER;
    case SlotKind::kResult:
      return MYDEV_SLOT_RESULT;
    case SlotKind::kTemporary:
      return MYDEV_SLOT_TEMPORARY;
    case SlotKind::kConstant:
      break;
  }
  return MYDEV_SLOT_CONSTANT;
}

mydev_step_kind kind_of(const Step& step) {
  MYDEV_ASSERT(step.kind == StepKind::kLaunch || step.kind == StepKind::kCopy || step.kind == StepKind::kFill);
  if (step.kind == StepKind::kLaunch) return MYDEV_STEP_LAUNCH;
  return step.kind == StepKind::kCopy ? MYDEV_STEP_COPY : MYDEV_STEP_FILL;
}

}  // namespace

OfferedProgram::OfferedStep::OfferedStep(const Step& step) : frame(std::make_unique<LaunchFrame>(step)) {
  size_t buffer = 0;
  for (const auto* operands : {&step.results, &step.operands}) {
    for (const Operand& operand : *operands) {
      const bool is_view = operand.kind == Operand::kView;
      slots.push_back(is_view ? operand.slot : MYDEV_NO_SLOT);
      offsets.push_back(is_view ? operand.offset : 0);
      if (is_view) frame->buffers()[buffer].data = nullptr;
      ++buffer;
    }
  }
  view = {.struct_size = sizeof(mydev_step),
          .kind = kind_of(step),
          .pattern_bytes = static_cast<uint32_t>(step.pattern.size()),
          .pattern = step.pattern.empty() ? nullptr : step.pattern.data(),
          .kernel = step.kind == StepKind::kLaunch ? step.name.c_str() : nullptr,
          .frame = &frame->frame(),
          .slots = slots.data(),
          .offsets = offsets.data()};
}

OfferedProgram::OfferedProgram(const Program& program) : program_(program) {
  for (SlotIndex index = 0; index < program.slots().size(); ++index) {
    const Slot& slot = program.slots()[index];
    slots_.push_back({.struct_size = sizeof(mydev_slot),
                      .name = slot.name.c_str(),
                      .kind = kind_of(slot),
                      .updated = slot.donated && program.is_result(index) ? 1 : 0,
                      .dtype = slot.dtype,
                      .rank = static_cast<int32_t>(slot.sizes.size()),
                      .sizes = slot.sizes.data(),
                      .bytes = slot.bytes(),
                      .data = slot.kind == SlotKind::kConstant ? slot.data.data() : nullptr});
  }
  steps_.reserve(program.steps().size());
  for (const Step& step : program.steps()) steps_.emplace_back(step);
  view_.self = this;
  view_.program = {
      .struct_size = sizeof(mydev_program),
      .name = program.name().c_str(),
      .num_slots = static_cast<uint32_t>(slots_.size()),
      .num_steps = static_cast<uint32_t>(steps_.size()),
      .num_parameters = static_cast<uint32_t>(program.parameters().size()),
      .num_results = static_cast<uint32_t>(program.own_results().size()),
      .parameters = program.parameters().data(),
      .results = program.own_results().data(),
      .slot = [](const mydev_program* of, uint32_t index) -> const mydev_slot* {
        const std::vector<mydev_slot>& slots = self(of).slots_;
        return index < slots.size() ? &slots[index] : nullptr;
      },
      .step = [](const mydev_program* of, uint32_t index) -> const mydev_step* {
        const std::vector<OfferedStep>& steps = self(of).steps_;
        return index < steps.size() ? &steps[index].view : nullptr;
      },
      .text = [](const mydev_program* of) { return self(of).text().c_str(); },
  };
}

const std::string& OfferedProgram::text() const {
  if (text_.empty()) text_ = print(program_);
  return text_;
}

}  // namespace mydev::program
