// index_add, index_copy and index_fill.
#include <ATen/MemoryOverlap.h>
#include <ATen/Operators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>

#include "aten/core/number.h"
#include "aten/ops/composed/composed_forms.h"
#include "aten/ops/indexing/row_write.h"

namespace mydev {
namespace {

using at::Tensor;

bool is_write_index(const Tensor& index, const Tensor& self) {
  return on_device(index) && index.device() == self.device() && index.dim() <= 1 &&
         (index.scalar_type() == at::kLong || index.scalar_type() == at::kInt) && !index.is_alias_of(self);
}

// Whether `source` has the sizes of `self`, but for `dim`, along which it has those of the index.
bool is_source_for(const Tensor& source, const Tensor& self, int64_t dim, const Tensor& index) {
  if (source.dim() != self.dim() || !on_device(source) || source.device() != self.device() ||
      source.scalar_type() != self.scalar_type() || source.is_alias_of(self)) {
    return false;
  }
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (source.size(d) != (d == dim ? index.numel() : self.size(d))) return false;
  }
  return true;
}

// Whether `out` can become a copy of `self` that is written in part.
bool can_become(const Tensor& out, const Tensor& self) {
  if (out.is_same(self)) return at::has_internal_overlap(self) != at::MemOverlap::Yes;
  return writable_as(out, self.scalar_type(), self);
}

Tensor* write(KernelRef& ref, const Tensor& self, int64_t given_dim, const Tensor& index, const Tensor& source,
              Tensor& out) {
  const Launchable* kernel = on_device(self) ? ref.on(self) : nullptr;
  if (kernel == nullptr || self.dim() == 0 || !is_write_index(index, self) || !can_become(out, self)) return nullptr;
  const int64_t dim = at::maybe_wrap_dim(given_dim, self.dim());
  if (!is_source_for(source, self, dim, index) || out.is_alias_of(source) || out.is_alias_of(index)) return nullptr;
  if (!out.is_same(self)) {
    at::native::resize_output(out, self.sizes());
    out.copy_(self);
  }
  if (source.numel() > 0) write_rows(*kernel, out, RowShape(self.sizes(), dim, dim + 1), index, source);
  return &out;
}

Tensor* index_add_out(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                      const at::Scalar& alpha, Tensor& out) {
  if (!is_addable(self.scalar_type()) || alpha.isBoolean() || (alpha.isComplex() && !self.is_complex()) ||
      (alpha.isFloatingPoint() && !self.is_floating_point() && !self.is_complex())) {
    return nullptr;
  }
  const bool scaled = alpha.isComplex() || alpha.toDouble() != 1;
  return write(row_add_kernel, self, dim, index, scaled && on_device(source) ? source.mul(alpha) : source, out);
}

Tensor* index_copy_out(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, Tensor& out) {
  if (!has_frame_type(self) || index.scalar_type() != at::kLong) return nullptr;
  return write(row_copy_kernel, self, dim, index, source, out);
}

Tensor* index_fill(Tensor& self, int64_t given_dim, const Tensor& index, const at::Scalar& value) {
  const Launchable* kernel = on_device(self) ? row_copy_kernel.on(self) : nullptr;
  mydev_attribute number = {};
  if (has_attribute(value)) number = number_attribute("value", value);
  if (kernel == nullptr || self.dim() == 0 || !is_write_index(index, self) || index.scalar_type() != at::kLong ||
      !has_attribute(value) || !fit_number(number, self.scalar_type(), /*round=*/true) || !has_frame_type(self) ||
      (value.isComplex() && !self.is_complex()) || at::has_internal_overlap(self) == at::MemOverlap::Yes) {
    return nullptr;
  }
  const int64_t dim = at::maybe_wrap_dim(given_dim, self.dim());
  if (self.size(dim) == 0) return nullptr;
  at::DimVector shape(self.sizes());
  shape[static_cast<size_t>(dim)] = index.numel();
  if (c10::multiply_integers(shape) == 0) return &self;
  // The CPU counts negative indices from the end here.
  const Tensor places = at::where(index.lt(0), index.add(self.size(dim)), index);
  const Tensor values = at::full({}, value, self.options()).expand(shape);
  write_rows(*kernel, self, RowShape(self.sizes(), dim, dim + 1), places, values);
  return &self;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::index_add_out, &index_add_out>(m);
  register_native<at::_ops::index_copy_out, &index_copy_out>(m);
  register_composed_forms<row_add_kernel, at::_ops::index_add, at::_ops::index_add_>(m);
  register_composed_forms<row_copy_kernel, at::_ops::index_copy, at::_ops::index_copy_>(m);
  register_native<at::_ops::index_fill__int_Scalar, &index_fill>(m);
}

}  // namespace
}  // namespace mydev
