// rms_norm, forward and backward in one kernel each, in place of PyTorch's composition of pow, mean, rsqrt and mul.
//
// torch.nn.functional.rms_norm calls _fused_rms_norm, which is composite (CompositeImplicitAutograd) on most devices.
// Giving it and its backward kernels of our own overrides the composite there; PyTorch's formula for its derivative
// then applies. Half precision computes in float32. Without the kernel the composite is used, as elsewhere.
#include <ATen/ops/_fused_rms_norm_compositeimplicitautograd_dispatch.h>
#include <torch/library.h>

#include <functional>
#include <limits>
#include <numeric>

#include "aten/host/native_or_host.h"
#include "aten/ops/optional_tensor.h"

namespace mydev {
namespace {

using at::Tensor;

c10::ScalarType compute_dtype(const Tensor& input) {
  return c10::isReducedFloatingType(input.scalar_type()) ? at::kFloat : input.scalar_type();
}

// Tensors as dense rows of the normalized elements, in the type that is computed in.
struct DenseRows {
  DenseRows(const Tensor& input, c10::IntArrayRef normalized_shape)
      : length(c10::multiply_integers(normalized_shape)),
        count(length == 0 ? 0 : input.numel() / length),
        dtype(compute_dtype(input)) {}
  Tensor of(const Tensor& tensor) const { return tensor.to(dtype).contiguous().view({count, length}); }
  OptionalTensor weight(const OptionalTensor& weight) const {
    return given(weight) ? OptionalTensor(weight->to(dtype).contiguous().view({length})) : std::nullopt;
  }
  int64_t length, count;
  c10::ScalarType dtype;
};

// PyTorch's shape: that of the input, with 1 for each normalized dimension.
std::vector<int64_t> statistics_shape(const Tensor& input, c10::IntArrayRef normalized_shape) {
  std::vector<int64_t> shape = input.sizes().vec();
  std::fill(shape.end() - static_cast<std::ptrdiff_t>(normalized_shape.size()), shape.end(), 1);
  return shape;
}

using Normalized = std::tuple<Tensor, Tensor>;  // and the inverse of each row's root mean square

std::optional<Normalized> try_rms_norm(const Tensor& input, c10::IntArrayRef normalized_shape,
                                       const OptionalTensor& weight, std::optional<double> eps) {
  static KernelRef kernel("mydev.rms_norm");
  const Launchable* record = kernel.on(input);
  const DenseRows rows(input, normalized_shape);
  const bool is_taken = record != nullptr && is_asked(*record, dtype_bit(rows.dtype), input.device().index());
  if (!is_taken || rows.count == 0) return std::nullopt;
  if (input.is_contiguous() && !has_standard_strides(input)) return std::nullopt;  // the composition keeps such strides
  const Tensor x = rows.of(input);
  const Tensor out = empty_dense(x.sizes(), x);
  Tensor inverse_rms = empty_dense({rows.count}, x);
  const OptionalTensor dense_weight = rows.weight(weight);
  // PyTorch's default: the smallest step of the type that is computed in.
  const double default_eps =
      rows.dtype == at::kDouble ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  OpFrame<4, 1> frame;
  frame.add(out).add(inverse_rms).add(x).add_optional(dense_weight, to_frame_dtype(rows.dtype));
  frame.attribute(float_attribute("eps", eps.value_or(default_eps))).launch(*record, 2);
  return Normalized{out.view(input.sizes()).to(input.scalar_type()),
                    inverse_rms.view(statistics_shape(input, normalized_shape))};
}

Normalized rms_norm(const Tensor& input, c10::IntArrayRef normalized_shape, const OptionalTensor& weight,
                    std::optional<double> eps) {
  const Tensor scale = given(weight) ? *weight : Tensor();
  check_same_device("_fused_rms_norm", {input, scale});
  auto normalized =
      try_kernels<at::_ops::_fused_rms_norm>([&] { return try_rms_norm(input, normalized_shape, weight, eps); });
  if (normalized.has_value()) return *std::move(normalized);
  return at::compositeimplicitautograd::_fused_rms_norm(input, normalized_shape, weight, eps);
}

std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& grad, const Tensor& input, c10::IntArrayRef normalized_shape,
                                             const Tensor& inverse_rms, const OptionalTensor& weight,
                                             std::array<bool, 2> wanted) {
  static KernelRef kernel("mydev.rms_norm_backward");
  const Launchable* record = kernel.on(input);
  const DenseRows rows(input, normalized_shape);
  const Tensor g = rows.of(grad), x = rows.of(input);
  const Tensor scale = inverse_rms.to(rows.dtype).contiguous().view({rows.count, 1});
  const OptionalTensor dense_weight = rows.weight(weight);
  Tensor grad_x, grad_weight;
  const bool done = try_kernels<at::_ops::_fused_rms_norm_backward>([&] {
    if (record == nullptr || rows.count == 0) return false;
    grad_x = empty_dense(x.sizes(), x);
    if (wanted[1] && given(dense_weight)) grad_weight = empty_dense({rows.length}, x);
    const mydev_dtype dtype = to_frame_dtype(rows.dtype);
    OpFrame<6> frame;
    frame.add(grad_x).add_optional(grad_weight, dtype).add(g).add(x).add(scale).add_optional(dense_weight, dtype);
    frame.launch(*record, 2);
    return true;
  });
  if (!done) {
    grad_weight = Tensor();
    const Tensor y = x * scale;
    const Tensor weighted = given(dense_weight) ? g * *dense_weight : g;
    grad_x = scale * (weighted - y * (weighted * y).mean(1, /*keepdim=*/true));
    if (wanted[1] && given(dense_weight)) grad_weight = (g * y).sum(0);
  }
  return {wanted[0] ? grad_x.view(input.sizes()).to(input.scalar_type()) : Tensor(),
          grad_weight.defined() ? grad_weight.view(normalized_shape).to(weight->scalar_type()) : Tensor()};
}

// [docs: override]
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_rms_norm", TORCH_FN(rms_norm));
  m.impl("_fused_rms_norm_backward", TORCH_FN(rms_norm_backward));
}
// [docs: end]

}  // namespace
}  // namespace mydev
