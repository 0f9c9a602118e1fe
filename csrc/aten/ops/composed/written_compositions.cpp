// Operators that are written as a line or two of other operators of the device, as on the CPU. The line runs if the
// host does not reach the operands, or on any device if it is as fast. Otherwise they fall back, as they do for
// operands that the line would treat otherwise than the CPU.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/Operators.h>
#include <ATen/ScalarOps.h>

#include <limits>

#include "aten/ops/composed/composed_forms.h"

namespace mydev {
namespace {

using at::Tensor;

// The kernel that most of each operator is made of.
KernelRef eq_kernel("mydev.eq", policy::kComposition);
KernelRef sub_kernel("mydev.sub", policy::kComposition);
KernelRef pow_kernel("mydev.pow");
KernelRef sum_kernel("mydev.sum", policy::kComposition);
KernelRef norm_kernel("mydev.norm2", policy::kComposition);
KernelRef amin_kernel("mydev.amin", policy::kComposition);
KernelRef maximum_kernel("mydev.maximum", policy::kComposition);
KernelRef where_kernel("mydev.where", policy::kComposition);
KernelRef exp2_kernel("mydev.exp2");

bool has(KernelRef& kernel, const Tensor& self) {
  return on_device(self) && kernel.on(self) != nullptr;
}
bool is_like(const Tensor& other, const Tensor& self) {
  return on_device(other) && other.device() == self.device() && other.scalar_type() == self.scalar_type();
}

std::optional<bool> equal(const Tensor& self, const Tensor& other) {
  if (!has(eq_kernel, self) || !is_like(other, self)) return std::nullopt;
  return self.sizes() == other.sizes() && (self.numel() == 0 || self.eq(other).all().item<bool>());
}

std::optional<Tensor> rsub(const Tensor& self, const Tensor& other, const at::Scalar& alpha) {
  return has(sub_kernel, self) ? std::optional(at::sub(other, self, alpha)) : std::nullopt;
}

Tensor* pow_scalar_out(const at::Scalar& base, const Tensor& exponent, Tensor& out) {
  if (!has(pow_kernel, exponent) || base.equal(1.0) || base.equal(1)) return nullptr;
  return &at::pow_out(out, at::native::wrapped_scalar_tensor(base), exponent);
}

std::optional<Tensor> pow_scalar(const at::Scalar& base, const Tensor& exponent) {
  if (!has(pow_kernel, exponent)) return std::nullopt;
  return at::_ops::pow_Scalar::redispatch(kCompositionKeys, base, exponent);
}

// Computes in double, whose range of exponents is more than f32's elements need: the product is exact, and rounded
// once.
std::optional<Tensor> ldexp(const Tensor& self, const Tensor& exponent) {
  constexpr double kFurthest = 400;
  if (!has(exp2_kernel, self)) return std::nullopt;
  const bool scales = at::isFloatingType(self.scalar_type()) && c10::isIntegralType(exponent.scalar_type(), true);
  if (!scales) return at::_ops::ldexp_Tensor::redispatch(kCompositionKeys, self, exponent);
  if (self.scalar_type() == at::kDouble || exponent.scalar_type() == at::kBool) return std::nullopt;
  const Tensor power = exponent.to(at::kDouble).clamp(-kFurthest, kFurthest).exp2();
  return self.to(at::kDouble).mul(power).to(self.scalar_type());
}

std::optional<Tensor> count_nonzero(const Tensor& self, c10::IntArrayRef dims) {
  return has(sum_kernel, self) ? std::optional(self.ne(0).sum(dims)) : std::nullopt;
}

std::optional<Tensor> trace(const Tensor& self) {
  const c10::ScalarType type = self.scalar_type();
  const bool known = type == at::kFloat || type == at::kDouble || (is_small_integral(type) && type != at::kBool);
  return has(sum_kernel, self) && known && self.dim() == 2 ? std::optional(self.diagonal().sum()) : std::nullopt;
}

Tensor* norm_out(const Tensor& self, const std::optional<at::Scalar>& p, c10::IntArrayRef dims, bool keepdim,
                 Tensor& out) {
  if (!has(norm_kernel, self)) return nullptr;
  return &at::linalg_vector_norm_out(out, self, p.value_or(2.0), dims, keepdim);
}

std::optional<std::tuple<Tensor, Tensor>> aminmax(const Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  if (!has(amin_kernel, self) || self.numel() == 0) return std::nullopt;
  const auto dims = dim.has_value() ? c10::IntArrayRef(*dim) : c10::IntArrayRef();
  return std::tuple(at::amin(self, dims, keepdim), at::amax(self, dims, keepdim));
}

// NaN counts, as in maximum and minimum.
Tensor* clamp_out(const Tensor& self, const std::optional<Tensor>& min, const std::optional<Tensor>& max, Tensor& out) {
  if (!has(maximum_kernel, self) || self.scalar_type() == at::kBool || !is_like(out, self)) return nullptr;
  const bool has_min = min.has_value() && min->defined(), has_max = max.has_value() && max->defined();
  if ((!has_min && !has_max) || (has_min && !is_like(*min, self)) || (has_max && !is_like(*max, self))) return nullptr;
  if (!has_max) return &at::maximum_out(out, self, *min);
  return &at::minimum_out(out, has_min ? at::maximum(self, *min) : self, *max);
}

template <bool negative>
Tensor* is_infinity_out(const Tensor& self, Tensor& out) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!has(eq_kernel, self) || !is_real_float(self.scalar_type()) || out.scalar_type() != at::kBool) return nullptr;
  return &at::eq_out(out, self, negative ? -kInfinity : kInfinity);
}

Tensor* masked_fill(Tensor& self, const Tensor& mask, const Tensor& value) {
  if (!has(where_kernel, self) || value.dim() != 0) return nullptr;
  if (value.is_cpu()) return &self.masked_fill_(mask, value.item());
  if (!is_like(value, self) || !on_device(mask) || mask.device() != self.device() || mask.scalar_type() != at::kBool ||
      !at::is_expandable_to(mask.sizes(), self.sizes()) || at::has_internal_overlap(self) == at::MemOverlap::Yes) {
    return nullptr;
  }
  return &self.copy_(at::where(mask, value, self));
}

std::optional<Tensor> prelu(const Tensor& self, const Tensor& weight) {
  if (!has(where_kernel, self) || !is_like(weight, self)) return std::nullopt;
  Tensor result = self.mul(weight);  // laid out as the CPU's result
  return at::where_out(result, self.gt(0), self, result);
}

std::optional<std::tuple<Tensor, Tensor>> prelu_backward(const Tensor& grad, const Tensor& self, const Tensor& weight) {
  if (!has(where_kernel, self) || !is_like(weight, self) || !is_like(grad, self) || grad.strides() != self.strides() ||
      grad.sizes() != self.sizes() || !self.is_non_overlapping_and_dense()) {
    return std::nullopt;
  }
  const Tensor positive = self.gt(0);
  return std::tuple(at::where(positive, grad, grad.mul(weight)), at::where(positive, 0, grad.mul(self)));
}

// Counts where repetitions end: the sum up to a place is the number of those that have ended before it.
std::optional<Tensor> repeat_interleave(const Tensor& repeats, std::optional<c10::SymInt> output_size) {
  const c10::ScalarType type = repeats.scalar_type();
  if (!has(sum_kernel, repeats) || repeats.dim() != 1 || repeats.numel() == 0 ||
      (type != at::kLong && type != at::kInt)) {
    return std::nullopt;
  }
  const Tensor ends = repeats.cumsum(0, at::kLong);
  const int64_t total = ends.select(0, -1).item<int64_t>();
  if (output_size.value_or(total) != total || repeats.min().item<int64_t>() < 0) return std::nullopt;
  const Tensor ended = at::zeros({total + 1}, repeats.options());
  return ended.index_add(0, ends, at::ones_like(repeats)).narrow(0, 0, total).cumsum(0, type);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::_prelu_kernel, &prelu>(m);
  register_native<at::_ops::_prelu_kernel_backward, &prelu_backward>(m);
  register_native<at::_ops::repeat_interleave_Tensor, &repeat_interleave>(m);
  register_native<at::_ops::equal, &equal>(m);
  register_native<at::_ops::rsub_Tensor, &rsub>(m);
  register_native<at::_ops::pow_Scalar, &pow_scalar>(m);
  register_native<at::_ops::pow_Scalar_out, &pow_scalar_out>(m);
  register_native<at::_ops::ldexp_Tensor, &ldexp>(m);
  register_native<at::_ops::count_nonzero_dim_IntList, &count_nonzero>(m);
  register_native<at::_ops::trace, &trace>(m);
  register_native<at::_ops::norm_out, &norm_out>(m);
  register_composed_forms<norm_kernel, at::_ops::norm_ScalarOpt_dim>(m);
  register_native<at::_ops::aminmax, &aminmax>(m);
  register_native<at::_ops::clamp_Tensor_out, &clamp_out>(m);
  register_composed_forms<maximum_kernel, at::_ops::clamp_Tensor, at::_ops::clamp__Tensor>(m);
  register_native<at::_ops::isneginf_out, &is_infinity_out<true>>(m);
  register_native<at::_ops::isposinf_out, &is_infinity_out<false>>(m);
  register_composed_forms<eq_kernel, at::_ops::isneginf, at::_ops::isposinf>(m);
  register_native<at::_ops::masked_fill__Tensor, &masked_fill>(m);
}

}  // namespace
}  // namespace mydev
