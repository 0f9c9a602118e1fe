#include "lowering/body.h"

#include <set>
#include <string>

#include "program/simplify.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

void collect_uses(const Region& region, std::vector<const Value*>& used, std::set<const Value*>& inside) {
  for (const Block* block : region.blocks) {
    inside.insert(block->arguments.begin(), block->arguments.end());
    for (const Operation* op : block->operations) {
      used.insert(used.end(), op->operands.begin(), op->operands.end());
      inside.insert(op->results.begin(), op->results.end());
      for (const Region* inner : op->regions) collect_uses(*inner, used, inside);
    }
  }
}

}  // namespace

bool is_token(const Value& value) noexcept {
  return value.type->kind == TypeKind::kToken;
}

std::vector<const Value*> free_values(std::span<const Region* const> regions) {
  std::vector<const Value*> used, free;
  std::set<const Value*> inside;
  for (const Region* region : regions) collect_uses(*region, used, inside);
  for (const Value* value : used) {
    if (inside.insert(value).second && !is_token(*value)) free.push_back(value);
  }
  return free;
}

Body::Body(Frame& outer, const char* name)
    : builder_(name + std::to_string(++outer.context.bodies)),
      emit_(builder_),
      frame_(outer.context, emit_, outer.function) {}

void Body::take(const Value& value, const Frame& outer) {
  const Tensor& given = outer[value];
  if (given.splat) {
    const std::vector<std::byte>& bytes = outer.emit.builder().slots()[given.view.slot].data;
    return frame_.set(value, emit_.splat(given.view.dtype, given.sizes(), *given.splat, bytes));
  }
  frame_.set(value, {read(given.view), std::nullopt});
}

program::Operand Body::read(const program::Operand& given) {
  return builder_.view(builder_.parameter(given.dtype, given.sizes));
}

program::Operand Body::updated(const program::Operand& given) {
  const program::SlotIndex slot = builder_.parameter(given.dtype, given.sizes, /*donated=*/true);
  builder_.returns(slot);
  return builder_.view(slot);
}

void Body::return_values(std::span<const Value* const> values) {
  for (const Value* value : values) {
    if (!is_token(*value)) builder_.returns(emit_.duplicate(frame_.view(*value)).slot);
  }
}

program::SharedProgram Body::build() && {
  return program::simplify(*std::move(builder_).build());
}

void give(Frame& frame, std::span<const Value* const> values, std::vector<program::Operand>& operands) {
  for (const Value* value : values) {
    if (!frame[*value].splat) operands.push_back(frame.emit.dense(frame.view(*value)));
  }
}

}  // namespace mydev::lowering
