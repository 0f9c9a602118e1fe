// tril and triu.
#include <ATen/Operators.h>
#include <ATen/native/Resize.h>

#include "aten/ops/composed/composed_forms.h"

namespace mydev {
namespace {

using at::Tensor;

KernelRef triangle_kernel("mydev.triangle", policy::kTriangle);

template <bool upper>
Tensor* triangle_out(const Tensor& self, c10::SymInt diagonal, Tensor& out) {
  const Launchable* kernel = on_device(self) ? triangle_kernel.on(self) : nullptr;
  const c10::ScalarType type = self.scalar_type();
  if (kernel == nullptr || to_frame_dtype(type) == MYDEV_DTYPE_INVALID || self.dim() < 2 || self.dim() > kMaxRank ||
      !(out.is_same(self) ? self.is_non_overlapping_and_dense() : writable_as(out, type, self))) {
    return nullptr;
  }
  if (!out.is_same(self)) at::native::resize_output(out, self.sizes());
  if (self.numel() == 0) return &out;
  OpFrame<2, 2> frame;
  frame.add(out).add(self).attribute(int_attribute("diagonal", diagonal.expect_int()));
  frame.attribute(bool_attribute("upper", upper)).launch(*kernel, 1);
  return &out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::tril_out, &triangle_out<false>>(m);
  register_native<at::_ops::triu_out, &triangle_out<true>>(m);
  register_composed_forms<triangle_kernel, at::_ops::tril, at::_ops::tril_, at::_ops::triu, at::_ops::triu_>(m);
}

}  // namespace
}  // namespace mydev
