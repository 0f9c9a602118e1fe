#include "lowering/loops/body.h"

#include <algorithm>
#include <set>
#include <string>

#include "program/transform/simplify.h"

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
  if (value.type->kind != TypeKind::kTuple) return frame_.set(value, taken(outer[value], outer));
  std::vector<Tensor> elements;
  for (const Tensor& given : outer.tuple(value)) elements.push_back(taken(given, outer));
  frame_.set_tuple(value, std::move(elements));
}

Tensor Body::taken(const Tensor& given, const Frame& outer) {
  if (!given.splat) return {read(given.view), std::nullopt};
  const std::vector<std::byte>& bytes = outer.emit.builder().slots()[given.view.slot].data;
  return emit_.splat(given.view.dtype, given.sizes(), *given.splat, bytes);
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
  const auto give_one = [&](const Tensor& tensor) {
    if (!tensor.splat) operands.push_back(frame.emit.dense(tensor.view));
  };
  for (const Value* value : values) {
    if (value->type->kind == TypeKind::kTuple) {
      std::ranges::for_each(frame.tuple(*value), give_one);
    } else {
      give_one(frame[*value]);
    }
  }
}

}  // namespace mydev::lowering
