// unique and unique_consecutive: a sort, a comparison of neighbours, and the places where they differ.
#include <ATen/Operators.h>

#include "aten/host/native_or_host.h"
#include "aten/ops/indexing/equal_runs.h"

namespace mydev {

using at::Tensor;

Tensor begins_of_runs(const Tensor& values) {
  const int64_t count = values.numel();
  Tensor begins = at::ones({count}, values.options().dtype(at::kBool));
  if (count > 1) {
    Tensor later = begins.narrow(0, 1, count - 1);
    at::ne_out(later, values.narrow(0, 1, count - 1), values.narrow(0, 0, count - 1));
  }
  return begins;
}

namespace {

KernelRef unique_kernel("mydev.sort");
KernelRef unique_of_few_kernel("mydev.sort", policy::kUniqueOfFew);
KernelRef unique_runs_kernel("mydev.ne", policy::kUniqueConsecutive);

// Values; for each place of `self`, which of them it holds; counts.
using Unique = std::tuple<Tensor, Tensor, Tensor>;

// `order` says where an element of `values`, one dimension, stood in `self`; undefined if it stands there still.
Unique unique_runs(const Tensor& values, const Tensor& order, const Tensor& self, bool return_inverse,
                   bool return_counts) {
  const at::TensorOptions indices = values.options().dtype(at::kLong);
  const Tensor begins = begins_of_runs(values), starts = begins.nonzero().flatten();
  Tensor inverse = at::empty({0}, indices), counts = at::empty({0}, indices);
  if (return_inverse) {
    const Tensor runs = begins.cumsum(0, at::kLong).sub_(1);
    inverse = (order.defined() ? at::empty_like(runs).scatter_(0, order, runs) : runs).view(self.sizes());
  }
  if (return_counts) counts = at::cat({starts, at::full({1}, values.numel(), indices)}).diff();
  return {values.index_select(0, starts), inverse, counts};
}

// The values are sorted whether they need be or not, as on the CPU.
std::optional<Unique> unique(const Tensor& self, bool /*sorted*/, bool return_inverse, bool return_counts) {
  constexpr int64_t kFew = 1024;
  KernelRef& kernel = self.numel() <= kFew ? unique_of_few_kernel : unique_kernel;
  if (!on_device(self) || kernel.on(self) == nullptr) return std::nullopt;
  const auto [values, order] = self.flatten().sort();
  return unique_runs(values, order, self, return_inverse, return_counts);
}

std::optional<Unique> unique_consecutive(const Tensor& self, bool return_inverse, bool return_counts,
                                         std::optional<int64_t> dim) {
  if (!on_device(self) || unique_runs_kernel.on(self) == nullptr || dim.has_value()) return std::nullopt;
  return unique_runs(self.flatten(), Tensor(), self, return_inverse, return_counts);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::_unique2, &unique>(m);
  register_native<at::_ops::unique_consecutive, &unique_consecutive>(m);
}

}  // namespace
}  // namespace mydev
