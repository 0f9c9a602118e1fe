#include "program/launch_frame.h"

namespace mydev::program {

namespace {

constexpr uintptr_t kPretendedBytes = uintptr_t{1} << 40;  // of a slot

mydev_buffer pretended_buffer(const Operand& operand) {
  const uintptr_t memory = (operand.slot + uintptr_t{1}) * kPretendedBytes;
  return buffer_of(operand, reinterpret_cast<void*>(memory));  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

LaunchFrame::LaunchFrame(const Step& step) {
  buffers_.reserve(step.results.size() + step.operands.size());
  for (const Operand& result : step.results) buffers_.push_back(pretended_buffer(result));
  for (const Operand& operand : step.operands) buffers_.push_back(pretended_buffer(operand));
  frame_ = make_frame(buffers_, static_cast<uint32_t>(step.results.size()), step.attributes.get());
}

}  // namespace mydev::program
