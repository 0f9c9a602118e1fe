// Kernels that compute element by element: those of the contracts whose expression has no reduction.
#include <span>
#include <utility>

#include "device_kernels/text/element_loop.h"
#include "device_kernels/text/expression_kernel.h"

namespace mydev::device_kernels {

namespace {

std::pair<std::string, KernelParameters> write_loop(const ExpressionForm& form, const ElementLoop& loop) {
  FunctionText function;
  ExpressionText text(form.contract->expression, form.domain, form.dtype);
  std::string of_rows;
  const std::vector<const BoundOperand*> memory = memory_of(form.operands);
  for (size_t b = 0; b < memory.size(); ++b) {
    const BoundOperand& operand = *memory[b];
    const std::string& name = operand.contract->name;
    const std::string pointer = "m_" + name;
    if (operand.is_result) {
      function.add_result(memory_type(operand.dtype), pointer);
      if (!operand.contract->is_updated) continue;
    } else {
      function.add_operand(memory_type(operand.dtype), pointer);
    }
    auto [statement, value] = load(operand, loop.element(b), form.domain);
    if (loop.is_of_row(b)) {
      of_rows += statement;
      text.bind(name, std::move(value));
    } else {
      text.bind_late(name, std::move(statement), std::move(value));
    }
  }
  loop.declare(function);
  form.declare_numbers(function);
  form.bind_numbers(text);
  std::string stores;
  for (size_t b = 0; b < memory.size() && memory[b]->is_result; ++b) {
    const Printed result = text.print(text.node_of(memory[b]->contract->name));
    stores += loop.element(b) + " = " + stored(text, result, memory[b]->dtype) + ";\n";
  }
  const std::string body = loop.open_rows() + of_rows + loop.open_places() + text.statements() + stores + loop.close();
  return {function.text(form.function_name(), body), function.parameters()};
}

}  // namespace

void add_pointwise(const Request& request, const BoundFrame& frame, const ExpressionForm& form, Work& work) {
  const std::vector<const BoundOperand*> memory = memory_of(frame.operands());
  require(!memory.empty() && memory.front()->is_result, "write to a result");
  std::vector<const mydev_buffer*> buffers;
  std::vector<std::string> names;
  for (const BoundOperand* operand : memory) {
    buffers.push_back(&frame.buffer(*operand));
    names.push_back("m_" + operand->contract->name);
  }
  const std::span<const int64_t> sizes(buffers[0]->sizes, static_cast<size_t>(buffers[0]->rank));
  const ElementLoop loop(request, Extents(sizes, buffers), names);
  if (loop.count() == 0) return;
  const auto write = [&] { return write_loop(form, loop); };
  Call& call = work.calls.emplace_back(expression_function(request, form, loop.form(), write), loop.geometry());
  for (const BoundOperand* operand : memory) call.give(Call::Memory{operand->buffer});
  loop.give(call);
  form.give_numbers(call, frame);
}

}  // namespace mydev::device_kernels
