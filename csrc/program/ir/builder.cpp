#include "program/ir/builder.h"

#include <algorithm>
#include <utility>

#include "program/ir/names.h"
#include "program/ir/verify.h"
#include "runtime/base/status.h"

namespace mydev::program {

std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  uint64_t stride = 1;  // of sizes that verify_structure will refuse it is any number
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = static_cast<int64_t>(stride);
    stride *= static_cast<uint64_t>(sizes[d]);
  }
  return strides;
}

namespace {

Step make_step(StepKind kind, std::vector<Operand> results, std::vector<Operand> operands, Order order) {
  Step step;
  step.kind = kind;
  step.results = std::move(results);
  step.operands = std::move(operands);
  step.lane = order.lane;
  step.after = std::move(order.after);
  return step;
}

}  // namespace

ProgramBuilder::ProgramBuilder(std::string name) : name_(std::move(name)) {}

SlotIndex ProgramBuilder::add_slot(Slot slot, const char* prefix) {
  const auto index = static_cast<SlotIndex>(slots_.size());
  if (slot.name.empty()) {
    slot.name = prefix + std::to_string(index);
    if (is_word_of_text(slot.name)) slot.name += '_';  // "c64"
  }
  slots_.push_back(std::move(slot));
  return index;
}

SlotIndex ProgramBuilder::parameter(mydev_dtype dtype, std::vector<int64_t> sizes, bool donated, std::string name) {
  const SlotIndex index =
      add_slot({std::move(name), SlotKind::kParameter, donated, false, dtype, std::move(sizes), {}}, "p");
  parameters_.push_back(index);
  return index;
}

SlotIndex ProgramBuilder::constant(mydev_dtype dtype, std::vector<int64_t> sizes, std::span<const std::byte> data,
                                   std::string name, uint32_t devices) {
  Slot slot{std::move(name), SlotKind::kConstant, false, false, dtype, std::move(sizes), {data.begin(), data.end()}};
  slot.devices = devices;
  return add_slot(std::move(slot), "c");
}

SlotIndex ProgramBuilder::temporary(mydev_dtype dtype, std::vector<int64_t> sizes, std::string name) {
  return add_slot({std::move(name), SlotKind::kTemporary, false, false, dtype, std::move(sizes), {}}, "t");
}

SlotIndex ProgramBuilder::slot_like(const Slot& slot, std::string name) {
  Slot copy = slot;
  copy.name = std::move(name);
  if (copy.kind == SlotKind::kResult) copy.kind = SlotKind::kTemporary;
  const SlotIndex index = add_slot(std::move(copy), "t");
  if (slot.kind == SlotKind::kParameter) parameters_.push_back(index);
  return index;
}

void ProgramBuilder::donate(SlotIndex parameter) {
  MYDEV_CHECK(parameter < slots_.size() && slots_[parameter].kind == SlotKind::kParameter, MYDEV_INVALID_ARGUMENT,
              "slot ", parameter, " of program '", name_, "' is no parameter: only parameters are donated");
  slots_[parameter].donated = true;
}

void ProgramBuilder::place_on_host(SlotIndex slot) {
  MYDEV_CHECK(slot < slots_.size(), MYDEV_INVALID_ARGUMENT, "program '", name_, "' has no slot ", slot);
  slots_[slot].on_host = true;
}

void ProgramBuilder::returns(SlotIndex slot) {
  MYDEV_CHECK(slot < slots_.size(), MYDEV_INVALID_ARGUMENT, "program '", name_, "' has no slot ", slot);
  Slot& result = slots_[slot];
  if (result.kind == SlotKind::kTemporary) result.kind = SlotKind::kResult;
  results_.push_back(slot);
}

Operand ProgramBuilder::view(SlotIndex slot) const {
  MYDEV_CHECK(slot < slots_.size(), MYDEV_INVALID_ARGUMENT, "program '", name_, "' has no slot ", slot);
  const Slot& viewed = slots_[slot];
  Operand operand;
  operand.kind = Operand::kView;
  operand.slot = slot;
  operand.dtype = viewed.dtype;
  operand.sizes = viewed.sizes;
  operand.strides = dense_strides(viewed.sizes);
  return operand;
}

Operand ProgramBuilder::view(SlotIndex slot, uint64_t offset, const mydev_buffer& buffer) {
  Operand operand;
  operand.kind = Operand::kView;
  operand.slot = slot;
  operand.offset = offset;
  operand.dtype = static_cast<mydev_dtype>(buffer.dtype);
  operand.sizes.assign(buffer.sizes, buffer.sizes + buffer.rank);
  operand.strides.assign(buffer.strides, buffer.strides + buffer.rank);
  return operand;
}

Operand ProgramBuilder::number(const mydev_buffer& buffer) {
  Operand operand = view(0, 0, buffer);
  operand.kind = Operand::kNumber;
  operand.number = *static_cast<const mydev_scalar*>(buffer.data);
  return operand;
}

Operand ProgramBuilder::number(mydev_dtype dtype, mydev_scalar value) {
  Operand operand;
  operand.kind = Operand::kNumber;
  operand.dtype = dtype;
  operand.number = value;
  return operand;
}

StepIndex ProgramBuilder::add(Step step) {
  steps_.push_back(std::move(step));
  return num_steps() - 1;
}

StepIndex ProgramBuilder::launch(std::string kernel, std::vector<Operand> results, std::vector<Operand> operands,
                                 std::span<const mydev_attribute> attributes, Order order) {
  Step step = make_step(StepKind::kLaunch, std::move(results), std::move(operands), std::move(order));
  step.name = std::move(kernel);
  step.attributes = Attributes(attributes);
  return add(std::move(step));
}

StepIndex ProgramBuilder::copy(Operand result, Operand operand, Order order) {
  return add(make_step(StepKind::kCopy, {std::move(result)}, {std::move(operand)}, std::move(order)));
}

StepIndex ProgramBuilder::fill(Operand result, std::span<const std::byte> pattern, Order order) {
  Step step = make_step(StepKind::kFill, {std::move(result)}, {}, std::move(order));
  step.pattern.assign(pattern.begin(), pattern.end());
  return add(std::move(step));
}

StepIndex ProgramBuilder::host_call(std::string name, HostFunction function, std::vector<Operand> results,
                                    std::vector<Operand> operands, Order order) {
  Step step = make_step(StepKind::kHostCall, std::move(results), std::move(operands), std::move(order));
  step.name = std::move(name);
  step.function = std::make_shared<const HostFunction>(std::move(function));
  return add(std::move(step));
}

StepIndex ProgramBuilder::collective(std::string name, CollectiveFunction function, std::vector<Operand> results,
                                     std::vector<Operand> operands, Order order) {
  Step step = make_step(StepKind::kCollective, std::move(results), std::move(operands), std::move(order));
  step.name = std::move(name);
  step.collective = std::make_shared<const CollectiveFunction>(std::move(function));
  return add(std::move(step));
}

StepIndex ProgramBuilder::call(SharedProgram program, std::vector<Operand> results, std::vector<Operand> operands,
                               Order order) {
  Step step = make_step(StepKind::kCall, std::move(results), std::move(operands), std::move(order));
  step.program = std::move(program);
  return add(std::move(step));
}

StepIndex ProgramBuilder::repeat(uint64_t count, SharedProgram body, std::vector<Operand> operands,
                                 std::vector<int64_t> advances, Order order) {
  Step step = make_step(StepKind::kRepeat, {}, std::move(operands), std::move(order));
  step.program = std::move(body);
  step.count = count;
  step.advances = std::move(advances);
  return add(std::move(step));
}

StepIndex ProgramBuilder::loop_while(Operand predicate, SharedProgram body, std::vector<Operand> operands,
                                     Order order) {
  Step step = make_step(StepKind::kWhile, {}, std::move(operands), std::move(order));
  step.program = std::move(body);
  step.predicate = std::move(predicate);
  return add(std::move(step));
}

StepIndex ProgramBuilder::conditional(Operand predicate, SharedProgram then, SharedProgram otherwise,
                                      std::vector<Operand> results, std::vector<Operand> operands, Order order) {
  Step step = make_step(StepKind::kIf, std::move(results), std::move(operands), std::move(order));
  step.program = std::move(then);
  step.otherwise = std::move(otherwise);
  step.predicate = std::move(predicate);
  return add(std::move(step));
}

SharedProgram ProgramBuilder::build() && {
  const std::shared_ptr<Program> program(new Program);
  program->name_ = std::move(name_);
  program->slots_ = std::move(slots_);
  program->steps_ = std::move(steps_);
  program->parameters_ = std::move(parameters_);
  program->results_ = std::move(results_);
  for (const SlotIndex slot : program->results_) {
    if (program->slots_[slot].kind == SlotKind::kResult) program->own_results_.push_back(slot);
  }
  verify_structure(*program);
  return program;
}

}  // namespace mydev::program
