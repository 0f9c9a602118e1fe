// isin of two tensors. Few tests are compared one by one; with many, the CPU's kernel sorts.
#include <ATen/Operators.h>

#include "aten/host/native_or_host.h"

namespace mydev {
namespace {

using at::Tensor;

KernelRef isin_kernel("mydev.isin");

constexpr int64_t kFewTests = 64;

std::optional<Tensor> isin(const Tensor& elements, const Tensor& tests, bool /*assume_unique*/, bool invert) {
  const at::ScalarType type = elements.scalar_type();
  const Launchable* kernel = on_device(elements) ? isin_kernel.for_operand(elements) : nullptr;
  if (kernel == nullptr || !on_device(tests) || tests.device() != elements.device() || tests.scalar_type() != type ||
      tests.numel() > kFewTests || type == at::kBool) {
    return std::nullopt;
  }
  const Tensor dense = elements.contiguous(), dense_tests = tests.contiguous();
  Tensor out = empty_dense(elements.sizes(), at::kBool, elements.device());
  if (out.numel() == 0) return out;
  const int64_t size = out.numel(), num_tests = tests.numel(), stride = 1;
  launch_on(*kernel, elements, 1,
            {buffer_of(out, &size, &stride, 1), buffer_of(dense, &size, &stride, 1),
             buffer_of(dense_tests, &num_tests, &stride, 1)},
            {bool_attribute("invert", invert)});
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::isin_Tensor_Tensor, &isin>(m);
}

}  // namespace
}  // namespace mydev
