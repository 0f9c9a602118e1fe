#include "aten/host/composition.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace mydev {
namespace {

// These are composed of views, copies, reductions and arithmetic.
constexpr std::array<std::string_view, 2> kNamed = {"aten::linalg__powsum", "aten::narrow_copy"};

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
  const bool named = overload.empty() && std::find(kNamed.begin(), kNamed.end(), name) != kNamed.end();
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
