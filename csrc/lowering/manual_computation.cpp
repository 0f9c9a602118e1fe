// Shardy's manual computations: bodies that each device runs on its parts of tensors.
#include <algorithm>

#include "lowering/frame.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

// Whether the function that is run does nothing with the value but return it.
bool is_returned(Context& context, const Value& value) {
  const Operation* user = context.only_user(value);
  return user != nullptr && user->op == Operator::kReturn && user->block == &context.module.main().body->body();
}

}  // namespace

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
      shardings.emplace_back(context.module, listed.at(i), devices, rank, axes, context.manual_axes);
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
  const std::vector<std::string>& axes = op.get<ManualAxes>("manual_axes").names;
  context.manual_axes.insert(context.manual_axes.end(), axes.begin(), axes.end());
  lower_block(frame, region.body());
  context.manual_axes.resize(context.manual_axes.size() - axes.size());
  const std::vector<Sharding> out = shardings_of(context, op, "out_shardings", op.results);
  for (size_t i = 0; i < op.results.size(); ++i) {
    const Value& value = op.result(i);
    if (!value.type->is_tensor()) continue;
    const Tensor& part = frame[*region.results()[i]];
    if (is_returned(context, value) && !out[i].is_whole()) {
      context.parts.emplace(&value, out[i]);
      frame.set(value, part);
    } else {
      frame.set(value, gathered(frame, part, out[i], *value.type));
    }
  }
  return true;
}

}  // namespace mydev::lowering
