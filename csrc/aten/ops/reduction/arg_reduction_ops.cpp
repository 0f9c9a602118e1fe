// max and min along one dimension, with the indices; argmax and argmin.
#include "aten/ops/reduction/reduction.h"

namespace mydev {
namespace {

using at::Tensor;

namespace ops = at::_ops;

KernelRef max_kernel("mydev.max_with_index");
KernelRef min_kernel("mydev.min_with_index");

void launch_arg_reduction(const Launchable& kernel, const Tensor& self, const ReducedOutput& values,
                          const ReducedOutput& indices) {
  launch_on(kernel, self, 2, {values.buffer(self), indices.buffer(self), input_buffer_of(self)});
}

template <KernelRef& kernel_ref>
std::optional<std::tuple<Tensor, Tensor>> values_and_indices(const Tensor& self, const ReductionRequest& request) {
  const Launchable* kernel = kernel_ref.for_operand(self);
  if (kernel == nullptr || !is_reducible(self) || self.numel() == 0) return std::nullopt;
  const Tensor *values_out = request.out[0], *indices_out = request.out[1];
  if (values_out != nullptr &&
      (!writable_as(*values_out, self.scalar_type(), self) || !writable_as(*indices_out, at::kLong, self))) {
    return std::nullopt;
  }
  const ReducedShape shape(self, request);
  const ReducedOutput values(values_out, self.scalar_type(), self, shape);
  const ReducedOutput indices(indices_out, at::kLong, self, shape);
  // The kernel walks both outputs with one set of strides.
  if (values.tensor().strides() != indices.tensor().strides()) return std::nullopt;
  launch_arg_reduction(*kernel, self, values, indices);
  return std::tuple(values.tensor(), indices.tensor());
}

template <KernelRef& kernel_ref>
std::optional<Tensor> index_only(const Tensor& self, const ReductionRequest& request) {
  const Launchable* kernel = kernel_ref.for_operand(self);
  if (kernel == nullptr || !is_reducible(self) || self.numel() == 0) return std::nullopt;
  const Tensor* given_out = request.out[0];
  if (given_out != nullptr && !writable_as(*given_out, at::kLong, self)) return std::nullopt;
  const ReducedShape shape(self, request);
  const ReducedOutput indices(given_out, at::kLong, self, shape);
  if (!request.dims.empty()) {
    launch_arg_reduction(*kernel, self, ReducedOutput({}, self, shape), indices);
  } else {  // counts through the elements in order
    const Tensor line = self.contiguous().view({self.numel()}), &out = indices.tensor();
    const ReducedShape whole(line, {});
    launch_arg_reduction(*kernel, line, ReducedOutput({}, line, whole),
                         ReducedOutput(out.dim() == 0 ? out : out.view(c10::IntArrayRef()), line, whole));
  }
  return indices.tensor();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_reduction<&values_and_indices<max_kernel>, ops::max_dim, ops::max_dim_max>(m);
  register_reduction<&values_and_indices<min_kernel>, ops::min_dim, ops::min_dim_min>(m);
  register_reduction<&index_only<max_kernel>, ops::argmax, ops::argmax_out>(m);
  register_reduction<&index_only<min_kernel>, ops::argmin, ops::argmin_out>(m);
}

}  // namespace
}  // namespace mydev
