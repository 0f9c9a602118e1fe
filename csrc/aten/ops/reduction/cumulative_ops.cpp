// cumsum and cumprod.
#include <ATen/Operators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>

#include "aten/ops/composed/composed_forms.h"

namespace mydev {
namespace {

using at::Tensor;

KernelRef cumsum_kernel("mydev.cumsum");
KernelRef cumprod_kernel("mydev.cumprod");

// The CPU computes in the type of `out`.
Tensor* accumulate(KernelRef& ref, const Tensor& self, int64_t given_dim, std::optional<c10::ScalarType> dtype,
                   Tensor& out) {
  const Launchable* kernel = on_device(self) && on_device(out) ? ref.for_operand(out) : nullptr;
  const c10::ScalarType type = out.scalar_type();
  if (kernel == nullptr || dtype.value_or(type) != type || self.is_complex() || self.dim() > kMaxRank ||
      !(out.is_same(self) ? self.is_non_overlapping_and_dense() : writable_as(out, type, self))) {
    return nullptr;
  }
  const int64_t dim = at::maybe_wrap_dim(given_dim, self.dim());
  if (!out.is_same(self)) at::native::resize_output(out, self.sizes());
  if (self.numel() == 0) return &out;
  if (self.dim() == 0) {
    out.copy_(self);
    return &out;
  }
  const Tensor elements = self.to(type);
  OpFrame<2, 1> frame;
  frame.add(out).add(elements).attribute(int_attribute("dim", dim)).launch(*kernel, 1);
  return &out;
}

template <KernelRef& ref>
Tensor* accumulate_by(const Tensor& self, int64_t dim, std::optional<c10::ScalarType> dtype, Tensor& out) {
  return accumulate(ref, self, dim, dtype, out);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::cumsum_out, &accumulate_by<cumsum_kernel>>(m);
  register_native<at::_ops::cumprod_out, &accumulate_by<cumprod_kernel>>(m);
  register_composed_forms<cumsum_kernel, at::_ops::cumsum, at::_ops::cumsum_>(m);
  register_composed_forms<cumprod_kernel, at::_ops::cumprod, at::_ops::cumprod_>(m);
}

}  // namespace
}  // namespace mydev
