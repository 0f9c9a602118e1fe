#include "aten/host/composition.h"

#include <algorithm>
#include <string_view>

#include "aten/core/operator_policy.h"

namespace mydev {
namespace {

bool is_list_operator(std::string_view name) {
  return name.starts_with("aten::_foreach_");
}

bool has_out_of_reach(const c10::IValue& value) {
  if (value.isTensor()) return is_out_of_reach(value.toTensor());
  if (!value.isTensorList()) return false;
  const auto list = value.toListRef();
  return std::any_of(list.begin(), list.end(), has_out_of_reach);
}

}  // namespace

bool is_composed(const c10::OperatorHandle& op) {
  using c10::DispatchKey;
  const auto& [name, overload] = op.operator_name();
  const bool named = overload.empty() && std::ranges::find(policy::kComposed, name) != policy::kComposed.end();
  return (named || is_list_operator(name)) &&
         (op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
          op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional));
}

bool run_composition(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  if (!is_list_operator(op.schema().name()) && std::none_of(arguments.begin(), arguments.end(), has_out_of_reach)) {
    return false;
  }
  op.redispatchBoxed(kCompositionKeys, stack);
  return true;
}

}  // namespace mydev
