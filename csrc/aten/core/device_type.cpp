#include "aten/core/device_type.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <vector>

namespace mydev {

namespace {

bool takes_tensor(const c10::Argument& argument) {
  return !argument.is_out() && argument.type()->isSubtypeOf(*c10::OptionalType::ofTensor());
}

// The names of an op's operands, by its overload that has most of them.
std::vector<std::string> operand_names(const std::string& op) {
  std::vector<std::string> most;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name != op) continue;
    std::vector<std::string> names;
    for (const c10::Argument& argument : c10::Dispatcher::singleton().findOp(name)->schema().arguments()) {
      if (takes_tensor(argument)) names.push_back(argument.name());
    }
    if (names.size() > most.size()) most = std::move(names);
  }
  return most;
}

}  // namespace

void raise_device_mismatch(std::string_view op, c10::Device expected, std::string_view operand, c10::Device found) {
  TORCH_CHECK(false, op, ": expected all tensors to be on the same device, but found at least two devices, ", expected,
              " and ", found, ": operand '", operand, "' is on ", found, "; move one of them with .to()");
}

std::string argument_name(const std::string& op, size_t argument) {
  const size_t dot = op.find('.');
  const c10::OperatorName name(op.substr(0, dot), dot == std::string::npos ? "" : op.substr(dot + 1));
  const auto found = c10::Dispatcher::singleton().findOp(name);
  const bool known = found.has_value() && found->hasSchema() && argument < found->schema().arguments().size();
  return known ? found->schema().arguments()[argument].name() : std::to_string(argument);
}

void check_same_device(std::string_view op, std::initializer_list<std::reference_wrapper<const at::Tensor>> tensors) {
  const auto first = std::ranges::find_if(tensors, [](const at::Tensor& tensor) { return on_device(tensor); });
  if (first == tensors.end()) return;
  const c10::Device expected = first->get().device();
  for (auto each = tensors.begin(); each != tensors.end(); ++each) {
    const at::Tensor& tensor = *each;
    if (!tensor.defined() || tensor.device() == expected || (tensor.is_cpu() && tensor.dim() == 0)) continue;
    const std::string name = (op.find("::") == std::string_view::npos ? "aten::" : "") + std::string(op);
    const std::vector<std::string> names = operand_names(name);
    const auto index = static_cast<size_t>(each - tensors.begin());
    raise_device_mismatch(name, expected, index < names.size() ? names[index] : std::to_string(index), tensor.device());
  }
}

}  // namespace mydev
