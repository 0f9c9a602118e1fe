#include "lowering/lowering.h"

#include <algorithm>
#include <utility>

#include "lowering/frame.h"
#include "program/fusion.h"
#include "program/names.h"
#include "runtime/base/status.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

bool is_donated(const FunctionArgument& argument) {
  return find(argument.attributes, "tf.aliasing_output") != nullptr ||
         find(argument.attributes, "jax.buffer_donor") != nullptr;
}

// As programs may be called: "jit_<lambda>" becomes "jit__lambda_".
std::string program_name(std::string_view name) {
  std::string result(name);
  for (char& c : result) {
    if (!program::continues_name(c)) c = '_';
  }
  return program::is_name(result) ? result : "main_" + result;
}

// Results are slots of their own, each returned once.
void return_tensor(Frame& frame, const Value& value, std::vector<program::SlotIndex>& returned) {
  Emitter& emit = frame.emit;
  program::Operand view = frame.view(value);
  const program::Slot& slot = emit.builder().slots()[view.slot];
  const bool whole = slot.kind == program::SlotKind::kTemporary && view.offset == 0 && is_row_major(view) &&
                     slot.dtype == view.dtype && slot.sizes == view.sizes;
  if (!whole || std::ranges::count(returned, view.slot) != 0) view = emit.duplicate(view);
  emit.builder().returns(view.slot);
  returned.push_back(view.slot);
}

}  // namespace

std::vector<Tensor> Frame::tensors_of(std::span<const Value* const> values) const {
  std::vector<Tensor> tensors;
  for (const Value* value : values) tensors.push_back((*this)[*value]);
  return tensors;
}

program::Operand Frame::result_of(const Value& value) {
  return emit.temporary(dtype_of(value.type->element), value.type->dims);
}

void lower_block(Frame& frame, const Block& block) {
  for (const Operation* op : block.operations) {
    if (op != &block.terminator()) lower_operation(frame, *op);
  }
}

void lower_operation(Frame& frame, const Operation& op) {
  for (const Value* result : op.results) {
    const Type& type = *result->type;
    if (type.kind != TypeKind::kToken && !(type.is_tensor() && type.is_static())) {
      op.fail(MYDEV_UNIMPLEMENTED, "gives a ", type.text(), "; tensors whose sizes are known are supported");
    }
  }
  const bool lowered = lower_control(frame, op) || lower_movement(frame, op) || lower_conversion(frame, op) ||
                       lower_pointwise(frame, op) || lower_reduction(frame, op) || lower_product(frame, op) ||
                       lower_indexing(frame, op);
  if (!lowered) lower_to_host(frame, op);
}

void lower_to_host(Frame& frame, const Operation& op) {
  Evaluation evaluation = make_evaluation(frame.context.module, op);
  std::vector<program::Operand> results, operands;
  for (const Value* operand : op.operands) operands.push_back(frame.view(*operand));
  for (const Value* result : op.results) {
    results.push_back(frame.result_of(*result));
    frame.set(*result, {results.back(), std::nullopt});
  }
  frame.context.host.launch(frame.emit, op.name(), std::move(evaluation), std::move(results), std::move(operands));
}

LoweredProgram lower(const Module& module, const Position& position) {
  const Function& main = module.main();
  auto host = std::make_unique<HostOperations>();
  Context context{module, *host, position};
  program::ProgramBuilder builder(program_name(module.name().empty() ? main.name : module.name()));
  Emitter emit(builder);
  Frame frame(context, emit, main);
  for (const FunctionArgument& argument : main.arguments) {
    const Type& type = *argument.value->type;
    if (type.kind == TypeKind::kToken) continue;
    MYDEV_CHECK(type.is_tensor() && type.is_static(), MYDEV_UNIMPLEMENTED, "function '", main.name, "' takes a ",
                type.text(), "; tensors whose sizes are known are supported");
    const program::SlotIndex slot = builder.parameter(dtype_of(type.element), type.dims, is_donated(argument));
    frame.set(*argument.value, {builder.view(slot), std::nullopt});
  }
  const Block& body = main.body->body();
  lower_block(frame, body);
  std::vector<program::SlotIndex> returned;
  for (const Value* value : body.terminator().operands) {
    if (value->type->kind != TypeKind::kToken) return_tensor(frame, *value, returned);
  }
  return {program::fuse(std::move(builder).build()), std::move(host)};
}

}  // namespace mydev::lowering
