// Operators that training by sparse gradients (COO) needs, made of the kernels for dense tensors: coalescing, a sum
// with a dense tensor, and the elements of a dense tensor in the places of a sparse one. On memory of the host the
// CPU's sparse kernels do all three, in place.
#include <ATen/MemoryOverlap.h>
#include <ATen/NativeFunctions.h>
#include <ATen/Operators.h>
#include <ATen/TensorIndexing.h>
#include <ATen/native/DispatchStub.h>

#include "aten/host/native_or_host.h"
#include "aten/host/sparse.h"
#include "aten/ops/indexing/equal_runs.h"
#include "aten/ops/indexing/row_write.h"

namespace at::native {
DECLARE_DISPATCH(Tensor (*)(const Tensor&, IntArrayRef), flatten_indices_stub)
}  // namespace at::native

namespace mydev {
namespace {

using at::Tensor;

KernelRef sort_kernel("mydev.sort", policy::kCoalesce);

// Whether `sparse` has elements, along at least one sparse dimension, that `kernel` computes with.
bool has_elements_for(KernelRef& kernel, const Tensor& sparse) {
  if (sparse.layout() != c10::kSparse || sparse._nnz() == 0 || sparse.sparse_dim() == 0) return false;
  const Tensor values = sparse._values();
  return on_device(values) && values.numel() > 0 && is_addable(values.scalar_type()) && kernel.on(values) != nullptr;
}

bool is_dense_like(const Tensor& self, const Tensor& sparse) {
  return on_device(self) && self.layout() == c10::kStrided && self.device() == sparse.device() &&
         self.scalar_type() == sparse.scalar_type() && self.sizes() == sparse.sizes();
}

// The place of each element of [dimension, element] among all, in row-major order. The wheel's headers do not have the
// stub by which PyTorch asks for them, to check that a tensor is coalesced.
Tensor flatten_indices(const Tensor& indices, c10::IntArrayRef sizes) {
  Tensor places = at::zeros({indices.size(1)}, indices.options());
  uint64_t span = 1;
  for (int64_t d = indices.size(0); d-- > 0; span *= static_cast<uint64_t>(sizes[static_cast<size_t>(d)])) {
    places.add_(indices.select(0, d), static_cast<int64_t>(span));
  }
  return places;
}

// The same of a sparse tensor, if they are numbers of 64 bits.
std::optional<Tensor> flat_places(const Tensor& sparse) {
  uint64_t span = 1;
  for (int64_t d = sparse.sparse_dim() - 1; d > 0; --d) {
    if (c10::mul_overflows(span, static_cast<uint64_t>(sparse.size(d)), &span) ||
        span > static_cast<uint64_t>(INT64_MAX) / static_cast<uint64_t>(std::max<int64_t>(sparse.size(d - 1), 1))) {
      return std::nullopt;
    }
  }
  return flatten_indices(sparse._indices(), sparse.sizes());
}

c10::List<std::optional<Tensor>> places_by_dimension(const Tensor& sparse) {
  c10::List<std::optional<Tensor>> places;
  for (const Tensor& index : sparse._indices().unbind(0)) places.push_back(index);
  return places;
}

// The number of different places decides the result's size: the caller waits for it, as on the CPU.
std::optional<Tensor> coalesce(const Tensor& self) {
  if (self.is_coalesced() || !has_elements_for(sort_kernel, self)) return std::nullopt;
  const std::optional<Tensor> places = flat_places(self);
  if (!places.has_value() || row_add_kernel.on(*places) == nullptr) return std::nullopt;
  const auto [sorted, order] = places->sort(/*stable=*/true, /*dim=*/0, /*descending=*/false);
  const Tensor starts = begins_of_runs(sorted), first = starts.nonzero().select(1, 0);
  at::DimVector sizes(self._values().sizes());
  sizes[0] = first.numel();
  const Tensor values = at::zeros(sizes, self._values().options());
  values.index_add_(0, starts.cumsum(0).sub_(1), self._values().index_select(0, order));
  const Tensor indices = self._indices().index_select(1, order.index_select(0, first));
  const Tensor result = sparse_over({indices, values}, self);
  return result._coalesced_(true);
}

Tensor* add_(Tensor& self, const Tensor& other, const at::Scalar& alpha) {
  if (!is_dense_like(self, other) || !has_elements_for(row_add_kernel, other) || alpha.isBoolean() ||
      (alpha.isComplex() && !self.is_complex()) ||
      (alpha.isFloatingPoint() && !self.is_floating_point() && !self.is_complex()) ||
      at::has_internal_overlap(self) == at::MemOverlap::Yes || self.is_alias_of(other._values())) {
    return nullptr;
  }
  const Tensor values = other._values();
  if (other.sparse_dim() == 1) {
    self.index_add_(0, other._indices().select(0, 0), values, alpha);
  } else {
    self.index_put_(places_by_dimension(other), alpha.equal(1) ? values : values.mul(alpha), /*accumulate=*/true);
  }
  return &self;
}

std::optional<Tensor> sparse_mask(const Tensor& self, const Tensor& mask) {
  if (!is_dense_like(self, mask) || !has_elements_for(row_select_kernel, mask)) return std::nullopt;
  const Tensor indices = mask._indices().clone();
  Tensor values =
      mask.sparse_dim() == 1 ? self.index_select(0, indices.select(0, 0)) : at::index(self, places_by_dimension(mask));
  return sparse_over({indices, std::move(values)}, mask);
}

// Registers `try_native` with the CPU's sparse kernel behind it.
template <class Op, auto try_native, class Schema = typename Op::schema>
struct NativeOrSparseFallback;
template <class Op, auto try_native, class Result, class... Args>
struct NativeOrSparseFallback<Op, try_native, Result(Args...)> {
  static Result call(Args... args) {
    if (auto result = try_kernels<Op>([&] { return try_native(args...); })) return *std::move(result);
    return BoxedFallback<Op>::call_for(c10::DispatchKey::SparsePrivateUse1, std::forward<Args>(args)...);
  }
};
template <class Op, auto try_native>
void register_sparse(torch::Library& library) {
  register_op<Op>(library, &NativeOrSparseFallback<Op, try_native>::call);
}

}  // namespace
}  // namespace mydev

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(flatten_indices_stub, &mydev::flatten_indices)
}  // namespace at::native

namespace mydev {
namespace {

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  register_sparse<at::_ops::_coalesce, &coalesce>(m);
  register_sparse<at::_ops::add__Tensor, &add_>(m);
  register_sparse<at::_ops::sparse_mask, &sparse_mask>(m);
}

}  // namespace
}  // namespace mydev
