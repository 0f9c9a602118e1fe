// nonzero, masked_select and masked_scatter. The host waits for the number of elements, which is the result's size.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/Operators.h>

#include "aten/host/native_or_host.h"
#include "aten/ops/indexing/row_write.h"

namespace mydev {
namespace {

using at::Tensor;

KernelRef nonzero_kernel("mydev.nonzero"), select_kernel("mydev.index_select");
KernelRef nonzero_in_dimensions_kernel("mydev.nonzero", policy::kNonzeroOfMatrix);

// The places of elements of a contiguous tensor that are not 0, in order.
Tensor places_of_nonzero(const Launchable& kernel, const Tensor& dense) {
  const Tensor truths = dense.scalar_type() == at::kBool ? dense : dense.ne(0);
  const int64_t found = truths.sum().item<int64_t>(), count = dense.numel(), stride = 1;
  const Tensor places = empty_dense({found}, at::kLong, dense.device());
  if (found == 0) return places;
  launch_on(kernel, dense, 1, {buffer_of(places), input_buffer_of(truths, &count, &stride, 1)});
  return places;
}

std::optional<Tensor> nonzero(const Tensor& self) {
  KernelRef& ref = self.dim() == 1 ? nonzero_kernel : nonzero_in_dimensions_kernel;
  const Launchable* kernel = on_device(self) ? ref.for_operand(self) : nullptr;
  if (kernel == nullptr || self.dim() == 0) return std::nullopt;
  const Tensor places =
      self.numel() == 0 ? empty_dense({0}, at::kLong, self.device()) : places_of_nonzero(*kernel, self.contiguous());
  const int64_t found = places.numel();
  if (self.dim() == 1) return places.as_strided({found, 1}, {1, found});
  Tensor result = empty_strided_on({found, self.dim()}, {1, found}, at::kLong, self.device());  // as the CPU's
  if (found == 0) return result;
  int64_t span = 1;  // of the dimensions inside
  for (int64_t d = self.dim() - 1; d >= 0; --d) {
    Tensor column = result.select(1, d);
    at::remainder_out(column, at::div(places, span, "trunc"), self.size(d));
    span *= self.size(d);
  }
  return result;
}

std::optional<Tensor> masked_select(const Tensor& self, const Tensor& mask) {
  const Launchable* kernel = on_device(self) ? nonzero_kernel.on(self) : nullptr;
  const Launchable* select = kernel != nullptr ? select_kernel.on(self) : nullptr;
  if (select == nullptr || mask.scalar_type() != at::kBool || !on_device(mask) || mask.device() != self.device() ||
      !has_frame_type(self) || !at::are_expandable(self.sizes(), mask.sizes())) {
    return std::nullopt;
  }
  const at::DimVector shape = at::infer_size_dimvector(self.sizes(), mask.sizes());
  if (c10::multiply_integers(shape) == 0) return empty_dense({0}, self);
  const Tensor places = places_of_nonzero(*kernel, mask.expand(shape).contiguous());
  const Tensor result = empty_dense({places.numel()}, self), elements = self.expand(shape).contiguous();
  if (result.numel() > 0) read_rows(*select, result, elements, RowShape({elements.numel()}, 0, 1), places);
  return result;
}

Tensor* masked_scatter(Tensor& self, const Tensor& mask, const Tensor& source) {
  const Launchable* kernel = on_device(self) ? nonzero_kernel.on(self) : nullptr;
  const Launchable* copy = kernel != nullptr ? row_copy_kernel.on(self) : nullptr;
  if (copy == nullptr || mask.scalar_type() != at::kBool || !on_device(mask) || mask.device() != self.device() ||
      !on_device(source) || source.device() != self.device() || source.scalar_type() != self.scalar_type() ||
      !has_frame_type(self) || mask.is_alias_of(self) || source.is_alias_of(self) ||
      !at::is_expandable_to(mask.sizes(), self.sizes()) || at::has_internal_overlap(self) == at::MemOverlap::Yes) {
    return nullptr;
  }
  if (self.numel() == 0) return &self;
  const Tensor places = places_of_nonzero(*kernel, mask.expand(self.sizes()).contiguous());
  if (source.numel() < places.numel()) return nullptr;  // the CPU's kernel raises
  const Tensor values = source.contiguous().view({source.numel()}).narrow(0, 0, places.numel());
  if (places.numel() > 0) write_rows(*copy, self, RowShape({self.numel()}, 0, 1), places, values);
  return &self;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::nonzero, &nonzero>(m);
  register_native<at::_ops::masked_select, &masked_select>(m);
  register_native<at::_ops::masked_scatter_, &masked_scatter>(m);
}

}  // namespace
}  // namespace mydev
