// sort, and so argsort, and topk.
//
// Kernels see the operand as [outer, dim, inner], dense. Sorting is always stable. Results of another layout are copied
// to it.
#include <ATen/Operators.h>
#include <ATen/WrapDimUtils.h>

#include "aten/host/native_or_host.h"

namespace mydev {
namespace {

using at::Tensor;
using ValuesAndIndices = std::tuple<Tensor, Tensor>;

KernelRef sort_kernel("mydev.sort");
KernelRef topk_kernel("mydev.topk");
KernelRef unsorted_topk_kernel("mydev.topk", policy::kUnsortedTopk);

// The kernel, if it takes the operand.
const Launchable* kernel_for(KernelRef& ref, const Tensor& self) {
  return on_device(self) && self.numel() > 0 && !self.is_neg() ? ref.for_operand(self) : nullptr;
}

// [outer, dim, inner] of dense operands whose dimension `dim` has the size.
struct Lines {
  std::array<int64_t, 3> sizes = {1, 1, 1}, strides;

  Lines(const Tensor& self, int64_t dim, int64_t size) {
    for (int64_t d = 0; d < self.dim(); ++d) {
      if (d != dim) sizes[d < dim ? 0 : 2] *= self.size(d);
    }
    sizes[1] = size;
    strides = {size * sizes[2], sizes[2], 1};
  }
};

ValuesAndIndices launch_sort(const Launchable& kernel, const Tensor& self, int64_t dim, int64_t kept,
                             const mydev_attribute& order) {
  at::DimVector sizes(self.sizes());
  if (self.dim() > 0) sizes[static_cast<size_t>(dim)] = kept;
  const Tensor dense = self.contiguous();
  Tensor values = empty_dense(sizes, self), indices = empty_dense(sizes, at::kLong, self.device());
  if (values.numel() == 0) return {values, indices};
  const Lines in(self, dim, self.dim() > 0 ? self.size(dim) : 1), out(self, dim, kept);
  launch_on(kernel, self, 2,
            {buffer_of(values, out.sizes, out.strides), buffer_of(indices, out.sizes, out.strides),
             input_buffer_of(dense, in.sizes, in.strides)},
            order);
  return {std::move(values), std::move(indices)};
}

Tensor laid_out_as(const Tensor& result, const Tensor& like) {
  Tensor out = empty_laid_out_as(like, result.scalar_type());
  return out.strides() == result.strides() ? result : out.copy_(result);
}

std::optional<ValuesAndIndices> sort(const Tensor& self, std::optional<bool> /*stable*/, int64_t dim, bool descending) {
  const Launchable* kernel = kernel_for(sort_kernel, self);
  if (kernel == nullptr) return std::nullopt;
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  const int64_t size = self.dim() > 0 ? self.size(wrapped) : 1;
  auto [values, indices] = launch_sort(*kernel, self, wrapped, size, bool_attribute("descending", descending));
  return ValuesAndIndices(laid_out_as(values, self), laid_out_as(indices, self));
}

std::optional<ValuesAndIndices> topk(const Tensor& self, c10::SymInt k, int64_t dim, bool largest, bool sorted) {
  const auto kept = k.maybe_as_int();
  if (!kept.has_value() || self.scalar_type() == at::kBool) return std::nullopt;
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim()), size = self.dim() > 0 ? self.size(wrapped) : 1;
  if (*kept < 0 || *kept > size) return std::nullopt;
  const bool few = *kept <= size / 64;  // which the CPU sorts
  const Launchable* kernel = kernel_for(sorted || few ? topk_kernel : unsorted_topk_kernel, self);
  if (kernel == nullptr) return std::nullopt;
  return launch_sort(*kernel, self, wrapped, *kept, bool_attribute("largest", largest));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::sort_stable, &sort>(m);
  register_native<at::_ops::topk, &topk>(m);
}

}  // namespace
}  // namespace mydev
