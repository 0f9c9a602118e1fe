#include "stablehlo/evaluator/scalar_program.h"

#include <array>
#include <limits>

namespace mydev::stablehlo {

namespace {

constexpr uint32_t kUnknown = std::numeric_limits<uint32_t>::max();  // no register yet

// Operators that give a scalar as it is.
bool is_identity_of_scalars(const Operation& op) noexcept {
  switch (op.op) {
    case Operator::kReshape:
    case Operator::kBroadcastInDim:
    case Operator::kBroadcast:
    case Operator::kTranspose:
    case Operator::kOptimizationBarrier:
      return true;
    case Operator::kCustomCall:
      return op.string("call_target_name") == "Sharding" && op.operands.size() == op.results.size();
    default:
      return op.row().has(kIdentity);
  }
}

bool computes_the_arguments(const Operation& op, const Block& block) noexcept {
  if (op.operands.size() != block.arguments.size() || op.operands.size() != 2) return false;
  return (op.operands[0] == block.arguments[0] && op.operands[1] == block.arguments[1]) ||
         (op.operands[0] == block.arguments[1] && op.operands[1] == block.arguments[0] && op.op != Operator::kSubtract);
}

}  // namespace

ScalarProgram::ScalarProgram(const Module& module, const Region& region) {
  const Block& block = region.body();
  std::vector<uint32_t> arguments;
  arguments.reserve(block.arguments.size());
  for (size_t i = 0; i < block.arguments.size(); ++i) arguments.push_back(add_register());
  arguments_ = arguments.size();
  Names names(region.function->value_count, kUnknown);
  results_ = add_block(module, block, arguments, names);
  if (block.operations.size() == 2 && instructions_.size() == 1 && results_.size() == 1 &&
      computes_the_arguments(*block.operations[0], block)) {
    only_operation_ = block.operations[0];
  }
}

uint32_t ScalarProgram::add_register(const Number& number) {
  initial_.push_back(number);
  return static_cast<uint32_t>(initial_.size() - 1);
}

uint32_t ScalarProgram::register_of(const Value& value, const Operation& user, Names& names) {
  uint32_t& name = names[value.id];
  if (name != kUnknown) return name;
  const Operation* definition = value.definition;
  if (definition == nullptr || definition->op != Operator::kConstant || value.type->rank() != 0) {
    user.fail(MYDEV_UNIMPLEMENTED, "takes a value from outside of the body that it is in; constants are supported");
  }
  return name = add_register(load(value.type->element, definition->literal("value").bytes.data()));
}

std::vector<uint32_t> ScalarProgram::add_block(const Module& module, const Block& block,
                                               std::span<const uint32_t> arguments, Names& names) {
  for (size_t i = 0; i < arguments.size(); ++i) names[block.arguments[i]->id] = arguments[i];
  for (const Operation* op : block.operations) {
    if (op != &block.terminator()) add_operation(module, *op, names);
  }
  std::vector<uint32_t> results;
  results.reserve(block.terminator().operands.size());
  for (const Value* value : block.terminator().operands) {
    results.push_back(register_of(*value, block.terminator(), names));
  }
  return results;
}

void ScalarProgram::add_operation(const Module& module, const Operation& op, Names& names) {
  for (const Value* result : op.results) {
    if (!result->type->is_tensor() || result->type->rank() != 0) {
      op.fail(MYDEV_UNIMPLEMENTED, "in a body that is computed element by element, results are scalars, not ",
              result->type->text());
    }
  }
  std::vector<uint32_t> operands;
  operands.reserve(op.operands.size());
  for (const Value* operand : op.operands) operands.push_back(register_of(*operand, op, names));
  if (op.op == Operator::kConstant) {
    register_of(op.result(), op, names);
  } else if (op.op == Operator::kCall) {
    const Function& callee = module.callee(op);
    Names inner(callee.value_count, kUnknown);
    const std::vector<uint32_t> results = add_block(module, callee.body->body(), operands, inner);
    for (size_t i = 0; i < results.size(); ++i) names[op.results[i]->id] = results[i];
  } else if (is_identity_of_scalars(op)) {
    for (size_t i = 0; i < op.results.size(); ++i) names[op.results[i]->id] = operands[i];
  } else if (is_elementwise(op)) {
    const uint32_t result = add_register();
    instructions_.push_back({ScalarOperation(op), std::move(operands), result});
    names[op.result().id] = result;
  } else {
    op.fail(MYDEV_UNIMPLEMENTED, "is not supported in a body that is computed element by element");
  }
}

void ScalarProgram::run(std::vector<Number>& registers) const {
  std::array<Number, 3> operands;
  for (const Instruction& instruction : instructions_) {
    for (size_t i = 0; i < instruction.operands.size(); ++i) operands[i] = registers[instruction.operands[i]];
    registers[instruction.result] = instruction.operation.apply(operands.data());
  }
}

}  // namespace mydev::stablehlo
