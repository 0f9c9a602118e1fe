// Custom calls: kernels of the registry by their names, programs of kernels (called_programs.cpp), and targets that
// programs use to say things to a compiler.
#include <algorithm>
#include <array>

#include "kernels/registry/kernel_registry.h"
#include "lowering/frame.h"
#include "lowering/memory_kinds.h"
#include "lowering/operators/kernel_call.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

// Targets about memories or layouts only: the result is the operand.
constexpr std::array<std::string_view, 2> kIdentities = {kPlacement, "LayoutConstraint"};

// The target that is a program; its text is the attribute `program`.
constexpr std::string_view kProgram = "mydev.program";

// Returns the attributes of a call; nullptr: it has none.
const Attribute* config_of(const Operation& op) {
  const Attribute* config = op.find("mhlo.backend_config");  // where JAX puts a typed call's
  return config != nullptr ? config : op.find("backend_config");
}

// Functions of the versions before the typed one are registered for each of them: "<target>:<version>".
const mydev_kernel* find_target(const Operation& op, const std::string& target) {
  if (const mydev_kernel* kernel = find_kernel(target)) return kernel;
  const auto* version = op.get_if<CustomCallVersion>("api_version");
  if (version == nullptr) return nullptr;
  return find_kernel(target + ":" + std::to_string(static_cast<int>(*version)));
}

// Lowers a target that is computed without a kernel of its name.
bool lower_known_target(Frame& frame, const Operation& op, const std::string& target) {
  if (std::ranges::count(kIdentities, target) != 0) {
    require_same_types(op);
    for (size_t i = 0; i < op.results.size(); ++i) frame.set(op.result(i), frame[op.operand(i)]);
    return true;
  }
  if (target == "mhlo.erf" && op.operands.size() == 1 && has_float_kernels(op.operand(0).type->element)) {
    require_same_types(op);
    const Tensor& x = frame[op.operand(0)];
    frame.set(op.result(), frame.emit.pointwise("mydev.erf", x.view.dtype, {x}));
    return true;
  }
  Evaluation evaluation = make_evaluation_of_target(op);
  if (!evaluation) return false;
  std::vector<program::Operand> results, operands;
  std::vector<Tensor> tensors;
  for (const Value* operand : op.operands) operands.push_back(frame.view(*operand));
  for (const Type* type : op.result_types()) {
    results.push_back(frame.emit.temporary(dtype_of(type->element), type->dims));
    tensors.push_back({results.back(), std::nullopt});
  }
  set_results(frame, op, tensors);
  frame.host_call(target, std::move(evaluation), std::move(results), std::move(operands));
  return true;
}

}  // namespace

bool lower_custom_call(Frame& frame, const Operation& op) {
  const std::string& target = op.string("call_target_name");
  if (target == kApproxTopK) return false;
  if (target == kProgram) {
    lower_called_program(frame, op, CallAttributes(op, config_of(op)).text("program"));
    return true;
  }
  const mydev_kernel* kernel = find_target(op, target);
  if (kernel == nullptr) {
    if (lower_known_target(frame, op, target)) return true;
    op.fail(MYDEV_UNIMPLEMENTED, "there is no kernel '", target,
            "' to call; load the library that has it (MYDEV_CUSTOM_CALLS)");
  }
  const CallAttributes attributes(op, config_of(op));
  KernelCall call = kernel_call(frame, op, *kernel, attributes.absent());
  set_results(frame, op, call.tensors);
  frame.emit.launch(kernel->name, std::move(call.results), std::move(call.operands), attributes.of(*kernel));
  return true;
}

}  // namespace mydev::lowering
