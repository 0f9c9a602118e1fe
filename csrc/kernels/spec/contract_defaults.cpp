#include "kernels/spec/contract_defaults.h"

#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"

namespace mydev {

namespace {

// The kind of numbers that the contract's first variable stands for. The buffer of an operand without lists before it
// has the operand's place.
ScalarKind kind_of_numbers(const KernelContract& contract, const mydev_frame& frame) {
  const auto of_first = [&](const std::vector<ContractOperand>& operands, size_t begin, size_t end) {
    for (size_t i = 0; i < operands.size() && begin + i < end; ++i) {
      if (operands[i].variable == 0) return static_cast<int32_t>(frame.buffers[begin + i].dtype);
      if (operands[i].is_list) break;
    }
    return static_cast<int32_t>(MYDEV_DTYPE_INVALID);
  };
  int32_t dtype = of_first(contract.results, 0, frame.num_outputs);
  if (dtype == MYDEV_DTYPE_INVALID) {
    dtype = of_first(contract.operands, frame.num_outputs, size_t{frame.num_outputs} + frame.num_inputs);
  }
  return dtype == MYDEV_DTYPE_INVALID ? ScalarKind::kFloat : scalar_kind(dtype);
}

mydev_attribute default_of(const ContractAttribute& attribute, double value, const KernelContract& contract,
                           const mydev_frame& frame) {
  const char* name = attribute.name.c_str();
  if (attribute.kind == ContractKind::kBool) return bool_attribute(name, value != 0);
  if (attribute.kind == ContractKind::kInt) return int_attribute(name, static_cast<int64_t>(value));
  if (attribute.kind == ContractKind::kFloat) return float_attribute(name, value);
  switch (kind_of_numbers(contract, frame)) {
    case ScalarKind::kInteger:
      return int_attribute(name, static_cast<int64_t>(value));
    case ScalarKind::kFloat:
      return float_attribute(name, value);
    default:
      return complex_attribute(name, value, 0);
  }
}

}  // namespace

std::vector<mydev_attribute> missing_attributes(const KernelContract& contract, const mydev_frame& frame) {
  std::vector<mydev_attribute> missing;
  for (size_t i = frame.num_attributes; i < contract.attributes.size(); ++i) {
    const ContractAttribute& attribute = contract.attributes[i];
    if (!attribute.otherwise) break;
    missing.push_back(default_of(attribute, *attribute.otherwise, contract, frame));
  }
  return missing;
}

}  // namespace mydev
