// Programs as operations: the custom call "mydev.program", whose attribute `program` is the text of one
// (program/text/text.h). Its parameters are the operands and its results the results, by their bytes.
#include <utility>
#include <vector>

#include "lowering/frame.h"
#include "program/text/text.h"
#include "program/transform/inline.h"
#include "runtime/base/status.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

program::SharedProgram parsed(const Operation& op, std::string_view text) {
  try {
    return program::parse(text);
  } catch (const Error& error) {
    op.fail(error.code(), "the text of its program: ", error.what());
  }
}

void check_count(const Operation& op, const char* what, size_t given, size_t expected) {
  if (given == expected) return;
  op.fail(MYDEV_INVALID_ARGUMENT, "has ", given, " ", what, "s, and its program has ", expected);
}

// Checks that the tensor and the slot are the same bytes.
void check_slot(const Operation& op, const Type& type, const program::Slot& slot) {
  if (slot.on_host) {
    op.fail(MYDEV_UNIMPLEMENTED, "'", slot.name, "' of its program is memory of the host; programs that are called ",
            "have memory of the device alone");
  }
  const bool is_same =
      type.is_tensor() &&
      static_cast<uint64_t>(count_of(type.dims)) * static_cast<uint64_t>(element_bytes(type.element)) == slot.bytes();
  if (!is_same) {
    op.fail(MYDEV_INVALID_ARGUMENT, "gives a ", type.text(), " for '", slot.name, "' of its program, which has ",
            slot.bytes(), " bytes");
  }
}

// A dense view of the same bytes.
program::Operand seen_as(program::Operand dense, mydev_dtype dtype, const Sizes& sizes) {
  dense.dtype = dtype;
  dense.sizes = sizes;
  dense.strides = program::dense_strides(sizes);
  return dense;
}

// Adds the steps of a program, whose slots lie in `memory`.
void add_steps(program::ProgramBuilder& builder, const program::Program& called,
               const std::vector<program::Operand>& memory) {
  const auto move = [&](program::Operand& operand) {
    if (operand.kind != program::Operand::kView) return;
    operand.offset += memory[operand.slot].offset;
    operand.slot = memory[operand.slot].slot;
  };
  for (const program::Step& step : called.steps()) {
    program::Step copy = step;
    for (program::Operand& result : copy.results) move(result);
    for (program::Operand& operand : copy.operands) move(operand);
    move(copy.predicate);
    copy.lane = 0;
    copy.after.clear();
    builder.add(std::move(copy));
  }
}

}  // namespace

void lower_called_program(Frame& frame, const Operation& op, std::string_view text) {
  const program::SharedProgram called = program::inline_calls(parsed(op, text));
  check_count(op, "operand", op.operands.size(), called->parameters().size());
  check_count(op, "result", op.results.size(), called->results().size());
  program::ProgramBuilder& builder = frame.emit.builder();
  std::vector<program::Operand> memory(called->slots().size());
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const program::SlotIndex parameter = called->parameters()[i];
    const program::Slot& slot = called->slots()[parameter];
    check_slot(op, *op.operand(i).type, slot);
    const program::Operand& view = frame.view(op.operand(i));
    memory[parameter] = slot.donated ? frame.emit.duplicate(view) : frame.emit.dense(view);
  }
  for (program::SlotIndex index = 0; index < memory.size(); ++index) {
    const program::Slot& slot = called->slots()[index];
    if (slot.kind != program::SlotKind::kParameter) memory[index] = builder.view(builder.slot_like(slot, ""));
  }
  add_steps(builder, *called, memory);
  for (size_t i = 0; i < op.results.size(); ++i) {
    const program::SlotIndex result = called->results()[i];
    const Type& type = *op.result(i).type;
    check_slot(op, type, called->slots()[result]);
    frame.set(op.result(i), {seen_as(memory[result], dtype_of(type.element), type.dims), std::nullopt});
  }
}

}  // namespace mydev::lowering
