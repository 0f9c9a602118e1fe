#include "program/ir/program.h"

#include <algorithm>
#include <iterator>

#include "runtime/base/status.h"
#include "runtime/frame/dtype.h"

namespace mydev::program {

uint64_t Slot::bytes() const noexcept {
  auto total = static_cast<uint64_t>(dtype_size(dtype));
  for (const int64_t size : sizes) total *= static_cast<uint64_t>(size);
  return total;
}

std::span<const std::byte> Slot::data_of(uint32_t device) const {
  if (devices == 1) return data;
  MYDEV_CHECK(device < devices, MYDEV_INVALID_ARGUMENT, "constant '", name, "' has data for ", devices,
              " devices, and none for device ", device);
  return std::span(data).subspan(device * bytes(), bytes());
}

bool has_elements(const Operand& view) noexcept {
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] == 0 && view.strides[d] != 0) return false;
  }
  return true;
}

mydev_buffer buffer_of(const Operand& operand, void* memory) noexcept {
  const auto rank = static_cast<int32_t>(operand.sizes.size());
  mydev_buffer buffer{nullptr, operand.sizes.data(), operand.strides.data(), rank, static_cast<int16_t>(operand.dtype),
                      0};
  if (operand.kind == Operand::kNumber) {
    buffer.data = const_cast<mydev_scalar*>(&operand.number);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    buffer.flags = MYDEV_BUFFER_SCALAR;
  } else if (operand.kind == Operand::kView && has_elements(operand)) {
    buffer.data = static_cast<char*>(memory) + operand.offset;
  }
  return buffer;
}

std::pair<int64_t, int64_t> bytes_touched(const Operand& operand) noexcept {
  if (operand.kind != Operand::kView || !has_elements(operand)) return {0, 0};
  const int64_t size = dtype_size(operand.dtype);
  int64_t first = 0, last = 0;  // in elements
  for (size_t d = 0; d < operand.sizes.size(); ++d) {
    const int64_t reach = std::max<int64_t>(operand.sizes[d] - 1, 0) * operand.strides[d];
    (reach < 0 ? first : last) += reach;
  }
  const auto offset = static_cast<int64_t>(operand.offset);
  return {offset + first * size, offset + (last + 1) * size};
}

Attributes::Attributes(std::span<const mydev_attribute> attributes) {
  if (!attributes.empty()) frame_ = clone_frame(make_frame({}, 0, attributes));
}

std::span<const mydev_attribute> Attributes::get() const noexcept {
  if (frame_ == nullptr) return {};
  return {frame_->attributes, frame_->num_attributes};
}

bool Program::is_result(SlotIndex slot) const noexcept {
  return std::ranges::find(results_, slot) != results_.end();
}

namespace {

void append_programs(std::vector<const Program*>& programs, const Program& program) {
  if (std::ranges::find(programs, &program) != programs.end()) return;
  for (const Step& step : program.steps()) {
    for (const Program* called : {step.program.get(), step.otherwise.get()}) {
      if (called != nullptr) append_programs(programs, *called);
    }
  }
  programs.push_back(&program);
}

}  // namespace

std::vector<const Program*> programs_of(const Program& program) {
  std::vector<const Program*> programs;
  append_programs(programs, program);
  return programs;
}

const char* step_kind_name(StepKind kind) noexcept {
  constexpr const char* kNames[] = {"launch", "copy",  "fill",   "host",  "collective",
                                    "call",   "fused", "repeat", "while", "if"};
  static_assert(std::size(kNames) == static_cast<size_t>(StepKind::kIf) + 1);
  return kNames[static_cast<size_t>(kind)];
}

std::string describe_step(const Program& program, StepIndex step) {
  const Step& described = program.steps()[step];
  std::string what = step_kind_name(described.kind);
  if (!described.name.empty()) what += " " + described.name;
  if (described.program != nullptr) what += " " + described.program->name();
  return "step " + std::to_string(step) + " of program '" + program.name() + "' (" + what + ")";
}

}  // namespace mydev::program
