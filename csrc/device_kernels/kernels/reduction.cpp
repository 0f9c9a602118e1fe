// Kernels that reduce: those of the contracts whose expression has a sum, a maximum or the like, over some dimensions
// of the operands, or over all.
//
// Reductions whose elements need others first (a variance needs the mean) come in stages, each of which goes through
// the elements once. Few results with many elements each have a group each, whose threads share the elements; many
// results with few elements, or with elements that lie side by side for neighbouring results, have a thread each.
#include <algorithm>
#include <span>
#include <utility>

#include "device_kernels/base/extents.h"
#include "device_kernels/text/expression_kernel.h"
#include "device_kernels/text/expression_stages.h"
#include "device_kernels/text/reduction_loop.h"

namespace mydev::device_kernels {

namespace {

// Writes the function of a reduction.
std::pair<std::string, KernelParameters> write_reduction(const ExpressionForm& form, const ReductionLoop& loop) {
  FunctionText function;
  ExpressionText text(form.contract->expression, form.domain, form.dtype);
  const std::vector<const BoundOperand*> memory = memory_of(form.operands);
  for (size_t b = 0; b < memory.size(); ++b) {
    const BoundOperand& operand = *memory[b];
    const std::string& name = operand.contract->name;
    if (operand.is_result) {
      function.add_result(memory_type(operand.dtype), "m_" + name);
      continue;
    }
    function.add_operand(memory_type(operand.dtype), "m_" + name);
    auto [statement, value] = load(operand, loop.element(b), form.domain);
    text.bind_late(name, std::move(statement), std::move(value));
  }
  loop.declare(function);
  form.declare_numbers(function);
  form.bind_numbers(text);
  std::string body = (loop.by_group() ? "SCRATCH;\n" : "") + loop.open_results();
  std::string known;  // of lanes, which each loop over them begins with
  ExpressionStages stages(form, StageLoop(loop), text, "acc");
  for (size_t i = 0; i < stages.count(); ++i) {
    const StageText stage = stages.next();
    body +=
        stage.declarations + loop.open_elements() + known + stage.elements + loop.close_elements() + stage.combinations;
    (loop.by_group() ? body : known) += stage.values;
  }
  text.begin_block();
  std::string stores;
  for (size_t b = 0; b < memory.size() && memory[b]->is_result; ++b) {
    const std::string value = stages.stored_result(*memory[b]);
    stores += (loop.by_group() ? "ONCE " : "") + loop.result(b) + " = " + value + ";\n";
  }
  const std::string last = known + text.statements() + stores;
  body += loop.by_group() ? last : loop.open_lanes() + last + loop.close_lanes();
  return {function.text(form.function_name(), body + loop.close_results()), function.parameters()};
}

}  // namespace

void add_reduction(const Request& request, const BoundFrame& frame, ExpressionForm form, Work& work) {
  const std::vector<const BoundOperand*> memory = memory_of(frame.operands());
  std::vector<const mydev_buffer*> buffers;
  std::vector<std::string> names;
  size_t results = 0;
  const mydev_buffer* elements = nullptr;  // that are reduced
  for (const BoundOperand* operand : memory) {
    buffers.push_back(&frame.buffer(*operand));
    names.push_back("m_" + operand->contract->name);
    if (operand->is_result) ++results;
    if (!operand->is_result && (elements == nullptr || buffers.back()->rank > elements->rank))
      elements = buffers.back();
  }
  require(results != 0 && elements != nullptr, "reduce an operand to a result");
  const Extents extents({elements->sizes, static_cast<size_t>(elements->rank)}, buffers);
  const auto is_kept = [&](const Dimension& dimension) {
    return std::any_of(dimension.strides.begin(), dimension.strides.begin() + static_cast<ptrdiff_t>(results),
                       [](int64_t stride) { return stride != 0; });
  };
  const auto is_reduced = [&](const Dimension& dimension) { return !is_kept(dimension); };
  const ReductionLoop loop(request, extents.taken(is_kept), extents.taken(is_reduced), names,
                           std::min(results, names.size() - 1));
  if (loop.results() == 0) return;
  form.count = loop.elements();
  const auto write = [&] { return write_reduction(form, loop); };
  Call call(expression_function(request, form, loop.form(), write), loop.geometry());
  for (const BoundOperand* operand : memory) call.give(Call::Memory{operand->buffer});
  loop.give(call);
  form.give_numbers(call, frame);
  work.calls.push_back(std::move(call));
}

}  // namespace mydev::device_kernels
