#include "lowering/lowering.h"

#include <algorithm>
#include <utility>

#include "lowering/donation.h"
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
  if (!op.result().type->is_tensor()) return "";
  std::string key(op.name());
  for (const Value* operand : op.operands) {
    if (!operand->type->is_tensor()) return "";
    key += ' ' + text_of(frame.view(*operand));
  }
  for (const NamedAttribute& attribute : op.attributes) {
    if (attribute.name.find('.') != std::string_view::npos) continue;  // of other dialects
    key += ' ' + std::string(attribute.name) + '=' + print(*attribute.value);
  }
  return key + ' ' + op.result().type->text();
}

bool is_lowered(const Type& type) noexcept {
  if (type.kind == TypeKind::kTuple) {
    return std::ranges::all_of(type.inputs, [](const Type* of) { return of->is_tensor() && of->is_static(); });
  }
  return type.is_tensor() && type.is_static();
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
    if (type.kind != TypeKind::kToken && !is_lowered(type)) {
      op.fail(MYDEV_UNIMPLEMENTED, "gives a ", type.text(), "; tensors whose sizes are known are supported");
    }
  }
  if (lower_moving_part(frame, op)) return;
  const std::string key = key_of(frame, op);
  if (!key.empty()) {
    if (const std::vector<Tensor>* known = frame.emit.find(key)) {
      for (size_t i = 0; i < op.results.size(); ++i) frame.set(*op.results[i], (*known)[i]);
      return;
    }
  }
  const bool lowered = lower_control(frame, op) || lower_collective(frame, op) || lower_by_range(frame, op) ||
                       lower_movement(frame, op) || lower_conversion(frame, op) || lower_pointwise(frame, op) ||
                       lower_window(frame, op) || lower_reduction(frame, op) || lower_normalization(frame, op) ||
                       lower_ordering(frame, op) || lower_product(frame, op) || lower_indexing(frame, op);
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

// Gives the parameter, as this device has it.
program::Operand take_parameter(Frame& frame, const FunctionArgument& argument, bool donated,
                                std::vector<Sharding>& shardings) {
  const Value& value = *argument.value;
  const Type& type = *value.type;
  if (type.kind == TypeKind::kToken) {
    shardings.emplace_back(frame.context.placement.devices(), 0);
    return frame.emit.builder().view(frame.emit.builder().parameter(MYDEV_PRED, {0}));
  }
  MYDEV_CHECK(type.is_tensor() && type.is_static(), MYDEV_UNIMPLEMENTED, "function '", frame.function.name,
              "' takes a ", type.text(), "; tensors whose sizes are known are supported");
  Context& context = frame.context;
  const std::optional<Sharding> wanted = sharding_of_user(context, value);
  std::optional<Sharding> sharding =
      sharding_of(context.module, argument.attributes, context.placement.devices(), type.dims.size());
  if (!sharding) sharding = wanted ? *wanted : Sharding(context.placement.devices(), type.dims.size());
  const program::SlotIndex slot =
      frame.emit.builder().parameter(dtype_of(type.element), sharding->part_sizes(type.dims), donated);
  const Tensor part{frame.emit.builder().view(slot), std::nullopt};
  if (wanted && *wanted == *sharding) {
    context.parts.emplace(&value, *sharding);
    frame.set(value, part);
  } else {
    frame.set(value, gathered(frame, part, *sharding, type, describe(value)));
  }
  shardings.push_back(std::move(*sharding));
  return part.view;
}

// Gives the result, as this device returns it.
program::Operand result_to_return(Frame& frame, const Value& value, const FunctionResult& result,
                                  std::vector<Sharding>& shardings) {
  if (value.type->kind == TypeKind::kToken) {
    shardings.emplace_back(frame.context.placement.devices(), 0);
    return frame.emit.temporary(MYDEV_PRED, {0});
  }
  Context& context = frame.context;
  std::optional<Sharding> wanted =
      sharding_of(context.module, result.attributes, context.placement.devices(), value.type->dims.size());
  const auto part = context.parts.find(&value);
  const bool has_part = part != context.parts.end();
  // JAX, which asks how results are split, has attributes on each; PyTorch/XLA, which does not ask, has none.
  const bool gives_part = has_part && !result.attributes.empty();
  if (!wanted) wanted = gives_part ? part->second : Sharding(context.placement.devices(), value.type->dims.size());
  Tensor tensor = frame[value];
  if (!has_part || *wanted != part->second) {
    if (has_part) tensor = gathered(frame, tensor, part->second, *value.type, describe(value));
    tensor = part_of(frame, tensor, *wanted);
  }
  shardings.push_back(std::move(*wanted));
  return tensor.view;
}

}  // namespace

LoweredProgram lower(const Module& module, const Placement& placement) {
  const Function& main = module.main();
  auto host = std::make_unique<HostOperations>();
  Context context{module, *host, placement};
  if (placement.collectives == nullptr) {
    context.placement.collectives = std::make_shared<Collectives>(placement.devices());
  }
  program::ProgramBuilder builder(program_name(module.name().empty() ? main.name : module.name()));
  Emitter emit(builder);
  Frame frame(context, emit, main);
  Shardings shardings;
  Donations donations = donations_of(module);
  std::vector<program::Operand> parameters, results;
  for (size_t i = 0; i < main.arguments.size(); ++i) {
    parameters.push_back(take_parameter(frame, main.arguments[i], donations.donated[i], shardings.parameters));
  }
  const Block& body = main.body->body();
  lower_block(frame, body);
  for (size_t i = 0; i < main.results.size(); ++i) {
    const Value& value = *body.terminator().operands[i];
    results.push_back(result_to_return(frame, value, main.results[i], shardings.results));
  }
  settle(donations, parameters, results);
  return_results(emit, parameters, donations, std::move(results));
  const program::SharedProgram program = std::move(builder).build();
  return {program::fuse(program::simplify(*program, program::Copies::kReturnInstead)), std::move(shardings),
          std::move(context.gathered), std::move(context.meetings), std::move(host)};
}

}  // namespace mydev::lowering
