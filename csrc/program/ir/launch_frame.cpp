#include "program/ir/launch_frame.h"

#include "kernels/spec/contract_defaults.h"

namespace mydev::program {

namespace {

constexpr uintptr_t kPretendedBytes = uintptr_t{1} << 40;  // of a slot

mydev_buffer pretended_buffer(const Operand& operand, std::span<const SlotIndex> memory) {
  const SlotIndex slot = operand.slot < memory.size() ? memory[operand.slot] : operand.slot;
  const uintptr_t address = (slot + uintptr_t{1}) * kPretendedBytes;
  return buffer_of(operand, reinterpret_cast<void*>(address));  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

LaunchFrame::LaunchFrame(const Step& step, std::span<const SlotIndex> memory) {
  buffers_.reserve(step.results.size() + step.operands.size());
  for (const Operand& result : step.results) buffers_.push_back(pretended_buffer(result, memory));
  for (const Operand& operand : step.operands) buffers_.push_back(pretended_buffer(operand, memory));
  const std::span<const mydev_attribute> given = step.attributes.get();
  frame_ = make_frame(buffers_, static_cast<uint32_t>(step.results.size()), given);
  const KernelContract* contract = step.kind == StepKind::kLaunch ? builtin_contract(step.name) : nullptr;
  if (contract == nullptr || given.size() >= contract->attributes.size()) return;
  attributes_.assign(given.begin(), given.end());
  const std::vector<mydev_attribute> missing = missing_attributes(*contract, frame_);
  attributes_.insert(attributes_.end(), missing.begin(), missing.end());
  frame_.attributes = attributes_.data();
  frame_.num_attributes = static_cast<uint32_t>(attributes_.size());
}

}  // namespace mydev::program
