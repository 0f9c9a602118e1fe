// Questions to contracts, and contracts as text again.
#include "kernels/spec/contract.h"

#include <algorithm>

#include "runtime/frame/dtype.h"

namespace mydev {

bool KernelContract::is_reduction() const noexcept {
  return std::any_of(results.begin(), results.end(),
                     [](const ContractOperand& r) { return r.layout == ContractLayout::kReduced; });
}

bool KernelContract::is_pointwise() const noexcept {
  return !expression.empty() && !expression.reduces() && !is_reduction();
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
