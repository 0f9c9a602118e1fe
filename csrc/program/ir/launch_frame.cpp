#include "program/ir/launch_frame.h"

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
  frame_ = make_frame(buffers_, static_cast<uint32_t>(step.results.size()), step.attributes.get());
}

}  // namespace mydev::program
