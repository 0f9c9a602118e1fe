// Registers the typed wrappers of MYDEV_HOST_OPS.
#include <ATen/Operators.h>
#include <torch/library.h>

#include "aten/core/operator_policy.h"
#include "aten/host/fallback.h"
#include "aten/host/host_op.h"

namespace mydev {

void register_host_ops(torch::Library& library) {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  const auto add = [&](const char* name, const char* overload, torch::CppFunction&& kernel) {
    const auto op = dispatcher.findOp({name, overload});
    TORCH_INTERNAL_ASSERT(op.has_value(), name, ".", overload, " is not an op of this torch version");
    if (op->hasKernelForDispatchKey(kDispatchKey)) return;  // that of an extension which was loaded before
    library.impl(c10::toString(op->operator_name()).c_str(), std::move(kernel));
  };
#define MYDEV_ADD(op) \
  add(at::_ops::op::name, at::_ops::op::overload_name, torch::CppFunction(&HostOp<at::_ops::op>::call));
  MYDEV_HOST_OPS(MYDEV_ADD)
#undef MYDEV_ADD
}

}  // namespace mydev
