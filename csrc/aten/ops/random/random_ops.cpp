// uniform_, normal_, exponential_, bernoulli_, random_, and dropout.
//
// Numbers come from the generator's (seed, offset), which advances by the blocks that the kernel uses
// (csrc/host_kernels/isa/random/random.cpp). They fill memory in order; a tensor with gaps or overlaps is filled
// through a dense one. Bad parameters go to the CPU's kernel, which raises the CPU's error.
#include <ATen/Operators.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "aten/device/generator.h"
#include "aten/host/native_or_host.h"

namespace mydev {
namespace {

using at::Tensor;
using Generator = std::optional<at::Generator>;

KernelRef uniform_kernel("mydev.random_uniform", policy::kDraws);
KernelRef normal_kernel("mydev.random_normal", policy::kDraws);
KernelRef exponential_kernel("mydev.random_exponential", policy::kDraws);
KernelRef bernoulli_kernel("mydev.random_bernoulli", policy::kDraws);
KernelRef integers_kernel("mydev.random_integers", policy::kDraws);
KernelRef dropout_kernel("mydev.dropout", policy::kDraws);
KernelRef dropout_backward_kernel("mydev.dropout_backward");

constexpr int64_t kNarrow = 4, kWide = 2;  // elements per block, as in the kernel

uint64_t blocks_of(int64_t elements, int64_t per_block) {
  return static_cast<uint64_t>((elements + per_block - 1) / per_block);
}

mydev_buffer flat_buffer(const Tensor& tensor, const int64_t& size) {
  static constexpr int64_t kStride = 1;
  return buffer_of(tensor, &size, &kStride, 1);
}

// A frame's operands with, at the end, the state that a captured draw refers to.
template <size_t kOperands>
class DrawnBuffers {
 public:
  DrawnBuffers(const std::array<mydev_buffer, kOperands>& operands, const RandomDraw& draw)
      : count_(kOperands + (draw.state.defined() ? 1 : 0)) {
    std::copy(operands.begin(), operands.end(), buffers_.begin());
    if (draw.state.defined()) buffers_.back() = buffer_of(draw.state);
  }
  c10::ArrayRef<mydev_buffer> get() const { return {buffers_.data(), count_}; }

 private:
  size_t count_;
  std::array<mydev_buffer, kOperands + 1> buffers_;
};

mydev_attribute seed_attribute(const RandomDraw& draw) {
  return int_attribute("seed", static_cast<int64_t>(draw.first.seed));
}
mydev_attribute offset_attribute(const RandomDraw& draw) {
  return int_attribute("offset", static_cast<int64_t>(draw.first.offset));
}

// Launches a fill of self with two parameters; nullptr if there is no kernel for it.
Tensor* fill(KernelRef& ref, Tensor& self, const Generator& generator, int64_t per_block, const mydev_attribute& first,
             const mydev_attribute& second) {
  const Launchable* kernel = on_device(self) ? ref.for_operand(self) : nullptr;
  if (kernel == nullptr) return nullptr;
  if (self.numel() == 0) return &self;
  const bool dense = self.is_non_overlapping_and_dense();
  const Tensor target = dense ? self : empty_dense(self.sizes(), self);
  const int64_t size = self.numel();
  const RandomDraw draw = reserve_random(generator, self.device().index(), blocks_of(size, per_block));
  const DrawnBuffers<1> buffers({flat_buffer(target, size)}, draw);
  launch_on(*kernel, self, 1, buffers.get(), {seed_attribute(draw), offset_attribute(draw), first, second});
  if (!dense) self.copy_(target);
  return &self;
}

int64_t per_block(const Tensor& self) {
  return self.scalar_type() == at::kDouble ? kWide : kNarrow;
}

bool is_float_range(const Tensor& self, double low, double high) {
  const double largest = self.scalar_type() == at::kDouble  ? std::numeric_limits<double>::max()
                         : self.scalar_type() == at::kFloat ? static_cast<double>(std::numeric_limits<float>::max())
                         : self.scalar_type() == at::kHalf  ? 65504.0
                                                            : static_cast<double>(std::numeric_limits<float>::max());
  return low >= -largest && high <= largest && low <= high && high - low <= largest;
}

Tensor* uniform(Tensor& self, double low, double high, Generator generator) {
  if (!is_float_range(self, low, high)) return nullptr;
  return fill(uniform_kernel, self, generator, per_block(self), float_attribute("low", low),
              float_attribute("high", high));
}

Tensor* normal(Tensor& self, double mean, double std, Generator generator) {
  if (!(std >= 0)) return nullptr;
  return fill(normal_kernel, self, generator, per_block(self), float_attribute("mean", mean),
              float_attribute("std", std));
}

Tensor* exponential(Tensor& self, double rate, Generator generator) {
  if (!(rate > 0) || std::isinf(rate)) return nullptr;
  return fill(exponential_kernel, self, generator, per_block(self), float_attribute("rate", rate),
              float_attribute("unused", 0));
}

Tensor* bernoulli(Tensor& self, double p, Generator generator) {
  if (!(p >= 0 && p <= 1)) return nullptr;
  return fill(bernoulli_kernel, self, generator, kNarrow, float_attribute("p", p), float_attribute("unused", 0));
}

// --- integers ------------------------------------------------------------------------------------------------------

// The integers 0..largest that a tensor of this type holds exactly.
int64_t largest_integer(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return int64_t{1} << 53;
    case at::kFloat:
      return int64_t{1} << 24;
    case at::kHalf:
      return int64_t{1} << 11;
    case at::kBFloat16:
      return int64_t{1} << 8;
    case at::kBool:
      return 1;
    case at::kByte:
      return 255;
    default:
      return std::numeric_limits<int64_t>::max() >> (64 - 8 * static_cast<int>(c10::elementSize(type)));
  }
}

Tensor* integers(Tensor& self, int64_t low, uint64_t range, const Generator& generator) {
  return fill(integers_kernel, self, generator, kWide, int_attribute("low", low),
              int_attribute("range", static_cast<int64_t>(range)));
}

Tensor* random(Tensor& self, Generator generator) {
  if (self.is_complex()) return nullptr;
  return integers(self, 0, static_cast<uint64_t>(largest_integer(self.scalar_type())) + 1, generator);
}

Tensor* random_from(Tensor& self, int64_t from, std::optional<int64_t> to, Generator generator) {
  if (self.is_complex() || !to.has_value() || from >= *to) return nullptr;
  const int64_t largest = largest_integer(self.scalar_type());
  const bool is_unsigned = self.scalar_type() == at::kBool || self.scalar_type() == at::kByte;
  const int64_t smallest = is_unsigned ? 0 : c10::isIntegralType(self.scalar_type(), false) ? -largest - 1 : -largest;
  if (from < smallest || *to - 1 > largest) return nullptr;
  return integers(self, from, static_cast<uint64_t>(*to) - static_cast<uint64_t>(from), generator);
}

Tensor* random_to(Tensor& self, int64_t to, Generator generator) {
  return random_from(self, 0, to, std::move(generator));
}

// --- dropout -------------------------------------------------------------------------------------------------------

std::optional<std::tuple<Tensor, Tensor>> dropout(const Tensor& input, double p, std::optional<bool> train) {
  const Launchable* kernel = on_device(input) ? dropout_kernel.for_operand(input) : nullptr;
  if (kernel == nullptr || !train.value_or(true) || !(p >= 0 && p <= 1) || input.numel() == 0) return std::nullopt;
  const Tensor dense = input.is_non_overlapping_and_dense() ? input : input.clone();
  Tensor out =
      dense.is_contiguous() ? empty_dense(dense.sizes(), dense) : empty_laid_out_as(dense, dense.scalar_type());
  Tensor mask = empty_laid_out_as(dense, at::kBool);
  const int64_t size = dense.numel();
  const RandomDraw draw = reserve_random(std::nullopt, input.device().index(), blocks_of(size, kNarrow));
  const DrawnBuffers<3> buffers({flat_buffer(out, size), flat_buffer(mask, size), flat_buffer(dense, size)}, draw);
  launch_on(*kernel, input, 2, buffers.get(), {seed_attribute(draw), offset_attribute(draw), float_attribute("p", p)});
  return std::tuple(std::move(out), std::move(mask));
}

std::optional<Tensor> dropout_backward(const Tensor& grad, const Tensor& mask, double scale) {
  const Launchable* kernel = on_device(grad) ? dropout_backward_kernel.for_operand(grad) : nullptr;
  if (kernel == nullptr || !on_device(mask) || mask.device() != grad.device() || mask.scalar_type() != at::kBool ||
      mask.sizes() != grad.sizes()) {
    return std::nullopt;
  }
  // If the two are laid out differently, the product is laid out as that of any two operands.
  if (!grad.is_non_overlapping_and_dense() || grad.strides() != mask.strides()) return grad.mul(mask).mul_(scale);
  Tensor out = grad.is_contiguous() ? empty_dense(grad.sizes(), grad) : empty_laid_out_as(grad, grad.scalar_type());
  const int64_t size = grad.numel();
  if (size == 0) return out;
  launch_on(*kernel, grad, 1, {flat_buffer(out, size), flat_buffer(grad, size), flat_buffer(mask, size)},
            {float_attribute("scale", scale)});
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::uniform_, &uniform>(m);
  register_native<at::_ops::normal_, &normal>(m);
  register_native<at::_ops::exponential_, &exponential>(m);
  register_native<at::_ops::bernoulli__float, &bernoulli>(m);
  register_native<at::_ops::random_, &random>(m);
  register_native<at::_ops::random__from, &random_from>(m);
  register_native<at::_ops::random__to, &random_to>(m);
  register_native<at::_ops::native_dropout, &dropout>(m);
  register_native<at::_ops::native_dropout_backward, &dropout_backward>(m);
}

}  // namespace
}  // namespace mydev
