// scatter and scatter_add.
#include <ATen/MemoryOverlap.h>
#include <ATen/Operators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>

#include "aten/ops/composed/composed_forms.h"

namespace mydev {
namespace {

using at::Tensor;

KernelRef scatter_kernel("mydev.scatter", policy::kScatter);
KernelRef scatter_add_kernel("mydev.scatter_add", policy::kScatter);

bool can_scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  if (index.dim() != self.dim() || src.dim() != self.dim()) return false;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (index.size(d) > src.size(d) || (d != dim && index.size(d) > self.size(d))) return false;
  }
  return true;
}

bool is_apart(const Tensor& out, const Tensor& operand) {
  return on_device(operand) && operand.device() == out.device() && !operand.is_alias_of(out);
}

Tensor* scatter_by(KernelRef& ref, const Tensor& self, int64_t given_dim, const Tensor& index, const Tensor& src,
                   Tensor& out) {
  const Launchable* kernel = on_device(self) ? ref.on(self) : nullptr;
  const c10::ScalarType type = self.scalar_type();
  if (kernel == nullptr || to_frame_dtype(type) == MYDEV_DTYPE_INVALID || self.dim() == 0 || self.dim() > kMaxRank ||
      index.scalar_type() != at::kLong || src.scalar_type() != type || !is_apart(out, index) || !is_apart(out, src)) {
    return nullptr;
  }
  const bool in_place = out.is_same(self);
  if (in_place ? at::has_internal_overlap(self) == at::MemOverlap::Yes : !writable_as(out, type, self)) return nullptr;
  const int64_t dim = at::maybe_wrap_dim(given_dim, self.dim());
  if (!can_scatter(self, dim, index, src)) return nullptr;
  if (!in_place) {
    at::native::resize_output(out, self.sizes());
    out.copy_(self);
  }
  if (index.numel() == 0) return &out;
  const Tensor taken = src.as_strided(index.sizes(), src.strides());
  OpFrame<3, 1> frame;
  frame.add(out).add(index).add(taken).attribute(int_attribute("dim", dim)).launch(*kernel, 1);
  return &out;
}

Tensor* scatter_src_out(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, Tensor& out) {
  return scatter_by(scatter_kernel, self, dim, index, src, out);
}

Tensor* scatter_value_out(const Tensor& self, int64_t dim, const Tensor& index, const at::Scalar& value, Tensor& out) {
  if (!on_device(self) || scatter_kernel.on(self) == nullptr || (value.isComplex() && !self.is_complex()) ||
      index.numel() == 0) {  // the CPU does not look at a value that it writes nowhere
    return nullptr;
  }
  return scatter_by(scatter_kernel, self, dim, index, at::full({}, value, self.options()).expand(index.sizes()), out);
}

Tensor* scatter_add_out(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, Tensor& out) {
  const c10::ScalarType type = self.scalar_type();
  if (type == at::kComplexHalf || type == at::kUInt16 || type == at::kUInt32 || type == at::kUInt64) return nullptr;
  return scatter_by(scatter_add_kernel, self, dim, index, src, out);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::scatter_src_out, &scatter_src_out>(m);
  register_native<at::_ops::scatter_value_out, &scatter_value_out>(m);
  register_native<at::_ops::scatter_add_out, &scatter_add_out>(m);
  register_composed_forms<scatter_kernel, at::_ops::scatter_src, at::_ops::scatter__src, at::_ops::scatter_value,
                          at::_ops::scatter__value>(m);
  register_composed_forms<scatter_add_kernel, at::_ops::scatter_add, at::_ops::scatter_add_>(m);
}

}  // namespace
}  // namespace mydev
