// torch.autocast on our devices: PyTorch's standard policies, and fallthrough for every op that has none.
//
// The lists (which op runs in the lower precision, in float32, or in the widest type of its operands) are the ones that
// all of PyTorch's accelerators share.
#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "runtime/base/device_name.h"

// The macros of autocast_mode.h name things of namespace at unqualified.
namespace at {
namespace {

using namespace at::autocast;

Tensor refuse_binary_cross_entropy(const Tensor& /*self*/, const Tensor& /*target*/,
                                   const std::optional<Tensor>& /*weight*/, int64_t /*reduction*/) {
  TORCH_CHECK(false, "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast on ",
              mydev::device_name(),
              ": in a lower precision their logarithms overflow. Use binary_cross_entropy_with_logits or "
              "BCEWithLogitsLoss, which are safe, or leave autocast for this call with "
              "torch.autocast('",
              mydev::device_name(), "', enabled=False).");
}

#define LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define FLOAT32_UNLESS_ASKED(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION)
  AT_FORALL_FP32(FLOAT32)
  AT_FORALL_FP32_SET_OPT_DTYPE(FLOAT32_UNLESS_ASKED)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(WIDEST)
  m.impl("binary_cross_entropy", TORCH_FN(refuse_binary_cross_entropy));
}

// [docs: fallthrough]
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}
// [docs: end]

}  // namespace
}  // namespace at
