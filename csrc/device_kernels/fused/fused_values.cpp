#include "device_kernels/fused/fused_values.h"

#include <algorithm>

#include "device_kernels/text/expression_stages.h"

namespace mydev::device_kernels {

namespace {

const KernelContract& printed_contract(const std::string& kernel) {
  const KernelContract* contract = builtin_contract(kernel);
  require(contract != nullptr && is_fusible(*contract), "fuse no step of ", kernel);
  return *contract;
}

bool is_outer(const FusedBody& body, const FusedBody::Operand& operand) {
  return std::all_of(operand.strides.begin() + static_cast<ptrdiff_t>(body.outer_rank), operand.strides.end(),
                     [](int64_t stride) { return stride == 0; });
}

}  // namespace

FusedStep::FusedStep(const Request& request, const FusedBody& body, size_t index)
    : frame(body.frame_of(body.steps[index], buffers)),
      bound(printed_contract(body.steps[index].kernel), frame),
      form(request, bound),
      values(buffers.size()),
      reduces(bound.contract().is_reduction()) {
  form.numbers = "n" + std::to_string(index) + "_";
}

FusedValues::FusedValues(const Request& request, const FusedBody& body) {
  for (size_t s = 0; s < body.steps.size(); ++s) {
    const FusedBody::Step& from = body.steps[s];
    FusedStep& step = steps_.emplace_back(request, body, s);
    for (size_t i = from.num_outputs; i < from.operands.size(); ++i) {
      const FusedBody::Operand& operand = from.operands[i];
      if (operand.kind == FusedBody::Operand::kNumber || operand.kind == FusedBody::Operand::kAbsent) continue;
      step.values[i] = read(operand, body);
      step.depth = std::max(step.depth, values_[step.values[i]].depth);
    }
    size_t depth = step.depth;
    if (step.reduces) {
      depth += count_stages(step.form);
      step.form.count = 1;
      for (size_t d = body.outer_rank; d < body.sizes.size(); ++d) step.form.count *= body.sizes[d];
    }
    for (size_t i = 0; i < from.num_outputs; ++i) {
      const FusedBody::Operand& operand = from.operands[i];
      if (operand.kind == FusedBody::Operand::kAbsent) continue;
      const bool outer = from.is_outer || step.reduces;
      step.values[i] = values_.size();
      values_.push_back({operand.dtype, outer, depth, -1, s, values_.size()});
      const bool in_memory = operand.kind == FusedBody::Operand::kMemory;
      const size_t place = in_memory ? view_of(operand) : operand.index;
      if (in_memory) views_[place].is_written = true;
      now_[{in_memory, place}] = step.values[i];
    }
  }
  check_views();
}

size_t FusedValues::view_of(const FusedBody::Operand& operand) {
  const auto same = [&](const FusedView& view) {
    return view.buffer == operand.index && view.offset == operand.offset && view.dtype == operand.dtype &&
           view.strides == operand.strides;
  };
  const auto found = std::ranges::find_if(views_, same);
  if (found != views_.end()) return found->number;
  views_.push_back({operand.index, operand.offset, operand.dtype, operand.strides, false, views_.size()});
  return views_.size() - 1;
}

size_t FusedValues::read(const FusedBody::Operand& operand, const FusedBody& body) {
  const bool in_memory = operand.kind == FusedBody::Operand::kMemory;
  const size_t place = in_memory ? view_of(operand) : operand.index;
  const auto [found, is_new] = now_.try_emplace({in_memory, place}, values_.size());
  if (is_new)
    values_.push_back({operand.dtype, is_outer(body, operand), 0, static_cast<int>(place), 0, values_.size()});
  const FusedValue& value = values_[found->second];
  require(value.dtype == operand.dtype, "read ", dtype_name(operand.dtype), " where a step wrote ",
          dtype_name(value.dtype));
  return found->second;
}

void FusedValues::check_views() const {
  for (const FusedView& view : views_) {
    if (!view.is_written) continue;
    const auto others = std::ranges::count(views_, view.buffer, &FusedView::buffer);
    require(others == 1, "write buffer ", view.buffer, ", which is also seen in another way");
  }
}

}  // namespace mydev::device_kernels
