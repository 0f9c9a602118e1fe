// Questions to contracts, and contracts as text again.
#include "kernels/spec/contract.h"

#include <algorithm>

#include "runtime/frame/dtype.h"

namespace mydev {

bool ContractVariable::takes(mydev_dtype dtype, mydev_dtype other) const noexcept {
  if (like >= 0 && dtype == other) return true;
  if ((own & MYDEV_DTYPE_BIT(dtype)) == 0) return false;
  return std::ranges::all_of(conditions, [&](const auto& condition) {
    return (condition.first & MYDEV_DTYPE_BIT(dtype)) == 0 || (condition.second & MYDEV_DTYPE_BIT(other)) != 0;
  });
}

uint64_t KernelContract::all_dtypes() const noexcept {
  uint64_t dtypes = 0;
  for (const auto* list : {&results, &operands}) {
    for (const ContractOperand& operand : *list) dtypes |= operand.dtypes;
  }
  return dtypes;
}

uint64_t KernelContract::usual_dtypes() const noexcept {
  uint64_t dtypes = 0;
  for (const ContractVariable& variable : variables) dtypes |= variable.own & ~variable.on_request;
  for (const auto* list : {&results, &operands}) {
    for (const ContractOperand& operand : *list) dtypes |= operand.variable < 0 ? operand.dtypes : 0;
  }
  return dtypes;
}

bool KernelContract::is_reduction() const noexcept {
  return std::any_of(results.begin(), results.end(),
                     [](const ContractOperand& r) { return r.layout == ContractLayout::kReduced; });
}

bool KernelContract::is_pointwise() const noexcept {
  return !expression.empty() && !expression.reduces() && !is_reduction();
}

bool KernelContract::has_one_shape() const noexcept {
  const auto has_any_shape = [this](const ContractOperand& operand) {
    if (operand.shapes.size() != 1 || operand.shapes[0].size() != 1 || operand.is_list) return false;
    const ContractSize& size = operand.shapes[0][0];
    return size.kind == ContractSize::kList && sizes[static_cast<size_t>(size.name)].name == "...";
  };
  return std::ranges::all_of(results, has_any_shape) && std::ranges::all_of(operands, has_any_shape);
}

std::string describe_contract(const KernelContract& contract) {
  std::string text = contract.operands_text;
  if (*contract.types_text != '\0') text += std::string(", ") + contract.types_text;
  return text;
}

std::string dtype_list(uint64_t dtypes) {
  std::string text;
  for (const DtypeRow& row : kDtypes) {
    if ((dtypes & MYDEV_DTYPE_BIT(row.dtype)) != 0) text += (text.empty() ? "" : " ") + std::string(row.name);
  }
  return text;
}

}  // namespace mydev
