// The contracts of the built-in kernels, parsed when one is first asked for.
#include "kernels/spec/builtin_contracts.h"

#include <algorithm>

#include "kernels/spec/contract.h"

namespace mydev {

namespace {

struct Contracts {
  std::vector<KernelContract> in_order;
  std::vector<const KernelContract*> by_name;

  Contracts() {
    for (const auto groups : {pointwise_contracts(), data_contracts(), network_contracts(), fft_contracts()}) {
      for (const ContractGroup& group : groups) {
        for (const ContractRow& row : group.rows) {
          in_order.push_back(parse_contract(row.name, group.name, row.operands, row.types, row.expression, row.notes));
        }
      }
    }
    for (const KernelContract& contract : in_order) by_name.push_back(&contract);
    std::sort(by_name.begin(), by_name.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  }
};

const Contracts& contracts() {
  static const Contracts& parsed = *new Contracts;
  return parsed;
}

}  // namespace

std::span<const KernelContract> builtin_contracts() {
  return contracts().in_order;
}

const KernelContract* builtin_contract(std::string_view name) {
  const auto& by_name = contracts().by_name;
  const auto found = std::lower_bound(by_name.begin(), by_name.end(), name,
                                      [](const KernelContract* c, std::string_view n) { return c->name < n; });
  return found != by_name.end() && (*found)->name == name ? *found : nullptr;
}

uint64_t contract_dtypes(std::string_view kernel, char variable) {
  const KernelContract* contract = builtin_contract(kernel);
  if (contract == nullptr) return 0;
  for (const ContractVariable& entry : contract->variables) {
    if (entry.name == variable) return entry.dtypes;
  }
  return 0;
}

}  // namespace mydev
