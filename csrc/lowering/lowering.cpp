#include "lowering/lowering.h"

#include <algorithm>
#include <utility>

#include "lowering/frame.h"
#include "program/fusion.h"
#include "program/names.h"
#include "program/simplify.h"
#include "runtime/base/status.h"
#include "stablehlo/text/text.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

void count_uses(const Region& region, std::vector<Uses>& uses) {
  for (const Block* block : region.blocks) {
    for (const Operation* op : block->operations) {
      for (const Value* operand : op->operands) {
        ++uses[operand->id].count;
        uses[operand->id].last = op;
      }
      for (const Region* inner : op->regions) count_uses(*inner, uses);
    }
  }
}

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

std::string text_of(const program::Operand& view) {
  std::string text = std::to_string(view.slot) + '+' + std::to_string(view.offset) + ':' + std::to_string(view.dtype);
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    text += ',' + std::to_string(view.sizes[d]) + '*' + std::to_string(view.strides[d]);
  }
  return text;
}

// What tells an operation from others that compute something else; "": its result is its own.
std::string key_of(const Frame& frame, const Operation& op) {
  const bool is_call = op.op == Operator::kCustomCall || op.op == Operator::kCall || op.op == Operator::kComposite;
  if (is_call || !op.regions.empty() || op.row().has(kSideEffects) || op.results.empty()) return "";
  if (op.op == Operator::kConstant && op.result().type->rank() != 0) return "";
  std::string key(op.name());
  for (const Value* operand : op.operands) {
    if (operand->type->kind == TypeKind::kToken) return "";
    key += ' ' + text_of(frame.view(*operand));
  }
  for (const NamedAttribute& attribute : op.attributes) {
    if (attribute.name.find('.') != std::string_view::npos) continue;  // of other dialects
    key += ' ' + std::string(attribute.name) + '=' + print(*attribute.value);
  }
  return key + ' ' + op.result().type->text();
}

// Results are slots of their own, each returned once.
void return_tensor(Frame& frame, const Tensor& tensor, std::vector<program::SlotIndex>& returned) {
  Emitter& emit = frame.emit;
  program::Operand view = tensor.view;
  const program::Slot& slot = emit.builder().slots()[view.slot];
  const bool whole = slot.kind == program::SlotKind::kTemporary && view.offset == 0 && is_row_major(view) &&
                     slot.dtype == view.dtype && slot.sizes == view.sizes;
  if (!whole || std::ranges::count(returned, view.slot) != 0) view = emit.duplicate(view);
  emit.builder().returns(view.slot);
  returned.push_back(view.slot);
}

}  // namespace

const Uses& Context::uses_of(const Value& value) {
  const Function& function = *value.block->region->function;
  std::vector<Uses>& of_values = uses[&function];
  if (of_values.empty()) {
    of_values.resize(function.value_count);
    count_uses(*function.body, of_values);
  }
  return of_values[value.id];
}

const Operation* Context::only_user(const Value& value) {
  const Uses& found = uses_of(value);
  return found.count == 1 ? found.last : nullptr;
}

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
  const std::string key = key_of(frame, op);
  if (!key.empty()) {
    if (const std::vector<Tensor>* known = frame.emit.find(key)) {
      for (size_t i = 0; i < op.results.size(); ++i) frame.set(*op.results[i], (*known)[i]);
      return;
    }
  }
  const bool lowered = lower_control(frame, op) || lower_collective(frame, op) || lower_by_range(frame, op) ||
                       lower_movement(frame, op) || lower_conversion(frame, op) || lower_pointwise(frame, op) ||
                       lower_window(frame, op) || lower_reduction(frame, op) || lower_ordering(frame, op) ||
                       lower_product(frame, op) || lower_indexing(frame, op);
  if (!lowered) lower_to_host(frame, op);
  if (!key.empty()) frame.emit.remember(key, frame.tensors_of(op.results));
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

namespace {

// The sharding that the attribute says, or nothing.
std::optional<Sharding> sharding_of(const Context& context, const Dictionary& attributes, const Type& type) {
  const Attribute* attribute = find(attributes, "sdy.sharding");
  const auto* sharding = attribute != nullptr ? attribute->get_if<TensorSharding>() : nullptr;
  if (sharding == nullptr || context.placement.devices() == 1) return std::nullopt;
  return Sharding(context.module, *sharding, context.placement.devices(), type.dims.size());
}

// That of the one manual computation that takes the value.
std::optional<Sharding> sharding_of_user(Context& context, const Value& value) {
  const Operation* user = context.only_user(value);
  if (user == nullptr || user->op != Operator::kSdyManualComputation) return std::nullopt;
  const std::vector<Sharding> shardings = shardings_of(context, *user, "in_shardings", user->operands);
  return shardings.at(static_cast<size_t>(std::ranges::find(user->operands, &value) - user->operands.begin()));
}

void take_parameter(Frame& frame, const FunctionArgument& argument, std::vector<Sharding>& shardings) {
  const Value& value = *argument.value;
  const Type& type = *value.type;
  if (type.kind == TypeKind::kToken) {
    frame.emit.builder().parameter(MYDEV_PRED, {0});
    shardings.emplace_back(frame.context.placement.devices(), 0);
    return;
  }
  MYDEV_CHECK(type.is_tensor() && type.is_static(), MYDEV_UNIMPLEMENTED, "function '", frame.function.name,
              "' takes a ", type.text(), "; tensors whose sizes are known are supported");
  Context& context = frame.context;
  const std::optional<Sharding> wanted = sharding_of_user(context, value);
  std::optional<Sharding> sharding = sharding_of(context, argument.attributes, type);
  if (!sharding) sharding = wanted ? *wanted : Sharding(context.placement.devices(), type.dims.size());
  const program::SlotIndex slot =
      frame.emit.builder().parameter(dtype_of(type.element), sharding->part_sizes(type.dims), is_donated(argument));
  const Tensor part{frame.emit.builder().view(slot), std::nullopt};
  if (wanted && *wanted == *sharding) {
    context.parts.emplace(&value, *sharding);
    frame.set(value, part);
  } else {
    frame.set(value, gathered(frame, part, *sharding, type));
  }
  shardings.push_back(std::move(*sharding));
}

void return_result(Frame& frame, const Value& value, const FunctionResult& result, std::vector<Sharding>& shardings,
                   std::vector<program::SlotIndex>& returned) {
  if (value.type->kind == TypeKind::kToken) {
    frame.emit.builder().returns(frame.emit.temporary(MYDEV_PRED, {0}).slot);
    shardings.emplace_back(frame.context.placement.devices(), 0);
    return;
  }
  Context& context = frame.context;
  std::optional<Sharding> wanted = sharding_of(context, result.attributes, *value.type);
  const auto part = context.parts.find(&value);
  const bool has_part = part != context.parts.end();
  if (!wanted) wanted = has_part ? part->second : Sharding(context.placement.devices(), value.type->dims.size());
  Tensor tensor = frame[value];
  if (!has_part || *wanted != part->second) {
    if (has_part) tensor = gathered(frame, tensor, part->second, *value.type);
    tensor = part_of(frame, tensor, *wanted);
  }
  return_tensor(frame, tensor, returned);
  shardings.push_back(std::move(*wanted));
}

}  // namespace

LoweredProgram lower(const Module& module, const Placement& placement) {
  const Function& main = module.main();
  auto host = std::make_unique<HostOperations>();
  Context context{module, *host, placement, 0, 0, {}, {}};
  if (placement.collectives == nullptr) {
    context.placement.collectives = std::make_shared<Collectives>(placement.devices());
  }
  program::ProgramBuilder builder(program_name(module.name().empty() ? main.name : module.name()));
  Emitter emit(builder);
  Frame frame(context, emit, main);
  Shardings shardings;
  for (const FunctionArgument& argument : main.arguments) take_parameter(frame, argument, shardings.parameters);
  const Block& body = main.body->body();
  lower_block(frame, body);
  std::vector<program::SlotIndex> returned;
  for (size_t i = 0; i < main.results.size(); ++i) {
    return_result(frame, *body.terminator().operands[i], main.results[i], shardings.results, returned);
  }
  return {program::fuse(program::simplify(*std::move(builder).build())), std::move(shardings), std::move(host)};
}

}  // namespace mydev::lowering
