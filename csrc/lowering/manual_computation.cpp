// Shardy's manual computations: bodies that each device runs on its parts of tensors.
#include <algorithm>

#include "lowering/frame.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

std::vector<Sharding> shardings_of(const Context& context, const Operation& op, std::string_view name,
                                   std::span<const Value* const> values) {
  const int64_t devices = context.placement.devices();
  const auto& listed = op.get<TensorShardings>(name).values;
  const std::vector<std::string>& axes = op.get<ManualAxes>("manual_axes").names;
  std::vector<Sharding> shardings;
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t rank = values[i]->type->dims.size();
    if (devices == 1 || axes.empty()) {
      shardings.emplace_back(devices, rank);
    } else {
      shardings.emplace_back(context.module, listed.at(i), devices, rank, axes);
    }
  }
  return shardings;
}

bool lower_manual_computation(Frame& frame, const Operation& op) {
  Context& context = frame.context;
  const Region& region = op.region();
  const std::vector<Sharding> in = shardings_of(context, op, "in_shardings", op.operands);
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Value& value = op.operand(i);
    if (!value.type->is_tensor()) continue;
    const bool is_part = context.parts.contains(&value);  // and then of this sharding
    frame.set(*region.arguments()[i], is_part ? frame[value] : part_of(frame, frame[value], in[i]));
  }
  lower_block(frame, region.body());
  const std::vector<Sharding> out = shardings_of(context, op, "out_shardings", op.results);
  for (size_t i = 0; i < op.results.size(); ++i) {
    const Value& value = op.result(i);
    if (!value.type->is_tensor()) continue;
    const Tensor& part = frame[*region.results()[i]];
    const Operation* user = context.only_user(value);
    const bool is_returned = user != nullptr && user->op == Operator::kReturn && user->block->region->owner == nullptr;
    if (is_returned && !out[i].is_whole()) {
      context.parts.emplace(&value, out[i]);
      frame.set(value, part);
    } else {
      frame.set(value, gathered(frame, part, out[i], *value.type));
    }
  }
  return true;
}

}  // namespace mydev::lowering
