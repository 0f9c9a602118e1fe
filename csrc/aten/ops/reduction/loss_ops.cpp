// nll_loss (with and without spatial dimensions), mse_loss, binary_cross_entropy, and their backwards.
//
// Wrong shapes, dtypes and reductions go to the CPU's kernel, which raises the CPU's error.
#include <ATen/ExpandUtils.h>
#include <ATen/Operators.h>
#include <ATen/core/Reduction.h>

#include "aten/host/native_or_host.h"
#include "aten/ops/optional_tensor.h"

namespace mydev {
namespace {

using at::Tensor;

KernelRef nll_loss_kernel("mydev.nll_loss");
KernelRef nll_loss_backward_kernel("mydev.nll_loss_backward");
KernelRef mse_loss_kernel("mydev.mse_loss");
KernelRef mse_loss_backward_kernel("mydev.mse_loss_backward");
KernelRef bce_loss_kernel("mydev.bce_loss");
KernelRef bce_loss_backward_kernel("mydev.bce_loss_backward");

bool beside(const Tensor& self, const Tensor& other) {
  return on_device(other) && other.device() == self.device();
}

bool same_kind(const Tensor& self, const Tensor& other) {
  return beside(self, other) && other.scalar_type() == self.scalar_type();
}

// --- negative log likelihood ---------------------------------------------------------------------------------------

// The operands as the kernel sees them: in [N, C, S], target [N, S]; strides as they are where that is possible.
struct NllOperands {
  Tensor input, target;  // keep what the strides below describe alive
  std::array<int64_t, 3> input_sizes, input_strides;
  std::array<int64_t, 2> target_sizes, target_strides, line_strides, one = {1, 1};
  bool whole;  // the loss is one element

  mydev_buffer input_buffer() const { return input_buffer_of(input, input_sizes, input_strides); }
  mydev_buffer target_buffer() const { return input_buffer_of(target, target_sizes, target_strides); }
  // The loss, or its gradient.
  mydev_buffer line_buffer(const Tensor& line) const {
    return buffer_of(line, whole ? one : target_sizes, whole ? one : line_strides);
  }
  // A dense tensor of the input's sizes.
  mydev_buffer gradient_buffer(const Tensor& grad) const { return buffer_of(grad, input_sizes, input_strides); }

  static mydev_buffer vector(const Tensor& tensor, mydev_dtype dtype) {
    return tensor.defined() ? buffer_of(tensor) : absent_buffer(dtype);
  }
};

// Input [C] or [N, C] with target [] or [N]; `of_images`: [N, C, H, W] with [N, H, W].
std::optional<NllOperands> nll_operands(const Tensor& self, const Tensor& target, const OptionalTensor& weight,
                                        int64_t reduction, bool of_images) {
  if (!beside(self, target) || target.scalar_type() != at::kLong ||
      (of_images ? self.dim() != 4 : self.dim() == 0 || self.dim() > 2)) {
    return std::nullopt;
  }
  const int64_t class_dim = self.dim() == 1 ? 0 : 1, classes = self.size(class_dim);
  at::DimVector places;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (d != class_dim) places.push_back(self.size(d));
  }
  const bool one_sample = self.dim() == 1 && target.dim() == 1 && target.size(0) == 1;
  if (target.sizes() != at::IntArrayRef(places) && !one_sample) return std::nullopt;
  if (given(weight) && (!same_kind(self, *weight) || weight->dim() != 1 || weight->size(0) != classes)) {
    return std::nullopt;
  }
  NllOperands operands;
  const int64_t samples = self.dim() == 1 ? 1 : self.size(0);
  int64_t spatial = 1;
  for (int64_t d = 2; d < self.dim(); ++d) spatial *= self.size(d);
  operands.input = self.dim() <= 2 ? self : self.contiguous();
  operands.input_sizes = {samples, classes, spatial};
  operands.input_strides = self.dim() <= 2
                               ? std::array<int64_t, 3>{self.dim() == 1 ? 0 : self.stride(0), self.stride(class_dim), 1}
                               : std::array<int64_t, 3>{classes * spatial, spatial, 1};
  operands.target = target.dim() == 1 ? target : target.contiguous();
  operands.target_sizes = {samples, spatial};
  operands.target_strides = {target.dim() == 1 ? target.stride(0) : spatial, 1};
  operands.line_strides = {spatial, 1};
  operands.whole = reduction != at::Reduction::None || self.dim() == 1;
  return operands;
}

using LossPair = std::tuple<Tensor, Tensor>;

template <bool of_images>
std::optional<LossPair> nll_forward(const Tensor& self, const Tensor& target, const OptionalTensor& weight,
                                    int64_t reduction, c10::SymInt ignore_index) {
  const Launchable* kernel = on_device(self) ? nll_loss_kernel.for_operand(self) : nullptr;
  if (kernel == nullptr) return std::nullopt;
  const std::optional<NllOperands> operands = nll_operands(self, target, weight, reduction, of_images);
  if (!operands.has_value()) return std::nullopt;
  Tensor out = empty_dense(operands->whole ? at::IntArrayRef() : target.sizes(), self);
  Tensor total_weight = empty_dense({}, self);
  const mydev_dtype dtype = to_frame_dtype(self.scalar_type());
  launch_on(*kernel, self, 2,
            {operands->line_buffer(out), NllOperands::vector(total_weight, dtype), operands->input_buffer(),
             operands->target_buffer(), NllOperands::vector(given(weight) ? *weight : Tensor(), dtype)},
            {int_attribute("reduction", reduction), int_attribute("ignore_index", ignore_index.expect_int())});
  return LossPair(std::move(out), std::move(total_weight));
}

template <bool of_images>
OptionalTensor nll_backward(const Tensor& grad, const Tensor& self, const Tensor& target, const OptionalTensor& weight,
                            int64_t reduction, c10::SymInt ignore_index, const Tensor& total_weight) {
  const Launchable* kernel = on_device(self) ? nll_loss_backward_kernel.for_operand(self) : nullptr;
  if (kernel == nullptr || !same_kind(self, grad) || !same_kind(self, total_weight) || total_weight.numel() != 1) {
    return std::nullopt;
  }
  std::optional<NllOperands> operands = nll_operands(self, target, weight, reduction, of_images);
  if (!operands.has_value() || (operands->whole ? grad.numel() != 1 : grad.sizes() != target.sizes())) {
    return std::nullopt;
  }
  const Tensor grad_in = empty_dense(self.sizes(), self);
  if (self.numel() == 0) return grad_in;
  const Tensor dense_grad = grad.contiguous();
  operands->input_strides = {operands->input_sizes[1] * operands->input_sizes[2], operands->input_sizes[2], 1};
  const mydev_dtype dtype = to_frame_dtype(self.scalar_type());
  launch_on(*kernel, self, 1,
            {operands->gradient_buffer(grad_in), operands->line_buffer(dense_grad), operands->target_buffer(),
             NllOperands::vector(given(weight) ? *weight : Tensor(), dtype), NllOperands::vector(total_weight, dtype)},
            {int_attribute("reduction", reduction), int_attribute("ignore_index", ignore_index.expect_int())});
  return grad_in;
}

// --- elementwise losses --------------------------------------------------------------------------------------------

// `self` and the others broadcast to one shape and dense; empty unless all are of one dtype, on one device.
std::optional<std::vector<Tensor>> dense_operands(std::initializer_list<Tensor> operands) {
  const Tensor& self = *operands.begin();
  if (!on_device(self)) return std::nullopt;
  at::DimVector shape(self.sizes());
  for (const Tensor& tensor : operands) {
    if (!same_kind(self, tensor)) return std::nullopt;
    if (tensor.sizes() != self.sizes()) shape = at::infer_size_dimvector(shape, tensor.sizes());
  }
  std::vector<Tensor> dense;
  for (const Tensor& tensor : operands) {
    dense.push_back(tensor.sizes() == at::IntArrayRef(shape) ? tensor.contiguous() : tensor.expand(shape).contiguous());
  }
  return dense;
}

// The operands, if all lie in memory as `self` does, without gaps.
std::optional<std::vector<Tensor>> alike_operands(std::initializer_list<Tensor> operands) {
  const Tensor& self = *operands.begin();
  if (!on_device(self) || !self.is_non_overlapping_and_dense()) return std::nullopt;
  for (const Tensor& tensor : operands) {
    if (!same_kind(self, tensor) || tensor.sizes() != self.sizes() || tensor.strides() != self.strides()) {
      return std::nullopt;
    }
  }
  return std::vector<Tensor>(operands);
}

// A loss without reduction is laid out as its operands are; where those differ, the CPU decides how.
std::optional<std::vector<Tensor>> loss_operands(std::initializer_list<Tensor> operands, int64_t reduction) {
  if (reduction < at::Reduction::None || reduction >= at::Reduction::END) return std::nullopt;  // the CPU refuses it
  std::optional<std::vector<Tensor>> alike = alike_operands(operands);
  return alike.has_value() || reduction == at::Reduction::None ? alike : dense_operands(operands);
}

OptionalTensor launch_loss(KernelRef& ref, const Tensor& out, const std::vector<Tensor>& operands, int64_t reduction) {
  const Tensor& self = operands[0];
  const Launchable* kernel = ref.for_operand(self);
  if (kernel == nullptr) return std::nullopt;
  OpFrame<4, 1> frame;
  frame.add(out);
  for (const Tensor& tensor : operands) frame.add(tensor);
  frame.attribute(int_attribute("reduction", reduction)).launch(*kernel, 1);
  return out;
}

OptionalTensor launch_loss_backward(KernelRef& ref, const Tensor& grad_in, const Tensor& grad,
                                    const std::vector<Tensor>& operands, int64_t reduction) {
  const Tensor& self = operands[0];
  const Launchable* kernel = ref.for_operand(self);
  const bool whole = reduction != at::Reduction::None;
  if (kernel == nullptr || !same_kind(self, grad) || (whole ? grad.numel() != 1 : grad.sizes() != self.sizes())) {
    return std::nullopt;
  }
  OpFrame<5, 1> frame;
  const bool alike = whole || grad.strides() == self.strides();
  const Tensor dense_grad = alike ? grad : empty_laid_out_as(self, self.scalar_type()).copy_(grad);
  frame.add(grad_in).add(dense_grad);
  for (const Tensor& tensor : operands) frame.add(tensor);
  frame.attribute(int_attribute("reduction", reduction)).launch(*kernel, 1);
  return grad_in;
}

OptionalTensor mse(const Tensor& self, const Tensor& target, int64_t reduction) {
  const auto operands = loss_operands({self, target}, reduction);
  if (!operands.has_value()) return std::nullopt;
  const bool whole = reduction != at::Reduction::None;
  // The CPU's TensorIterator takes a layout that is both of these for channels-last.
  const auto format =
      self.is_contiguous(at::MemoryFormat::ChannelsLast) ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Preserve;
  const Tensor out = whole                  ? empty_dense({}, self)
                     : self.is_contiguous() ? empty_dense(self.sizes(), self)
                                            : at::empty_like(self, {}, format);
  return launch_loss(mse_loss_kernel, out, *operands, reduction);
}

OptionalTensor mse_backward(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction) {
  if (self.sizes() != target.sizes()) return std::nullopt;
  const auto operands = dense_operands({self, target});
  if (!operands.has_value()) return std::nullopt;
  return launch_loss_backward(mse_loss_backward_kernel, empty_dense(self.sizes(), self), grad, *operands, reduction);
}

std::optional<std::vector<Tensor>> bce_operands(const Tensor& self, const Tensor& target, const OptionalTensor& weight,
                                                int64_t reduction) {
  if (self.sizes() != target.sizes()) return std::nullopt;
  return given(weight) ? loss_operands({self, target, *weight}, reduction) : loss_operands({self, target}, reduction);
}

OptionalTensor bce(const Tensor& self, const Tensor& target, const OptionalTensor& weight, int64_t reduction) {
  const auto operands = bce_operands(self, target, weight, reduction);
  if (!operands.has_value()) return std::nullopt;
  const bool whole = reduction != at::Reduction::None;
  const Tensor out = whole ? empty_dense({}, self) : empty_laid_out_as(self, self.scalar_type());
  return launch_loss(bce_loss_kernel, out, *operands, reduction);
}

OptionalTensor bce_backward(const Tensor& grad, const Tensor& self, const Tensor& target, const OptionalTensor& weight,
                            int64_t reduction) {
  // The gradient is laid out as the input, whatever the reduction.
  const auto operands = bce_operands(self, target, weight, at::Reduction::None);
  if (!operands.has_value()) return std::nullopt;
  const Tensor grad_in = empty_laid_out_as(self, self.scalar_type());
  return launch_loss_backward(bce_loss_backward_kernel, grad_in, grad, *operands, reduction);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::nll_loss_forward, &nll_forward<false>>(m);
  register_native<at::_ops::nll_loss_backward, &nll_backward<false>>(m);
  register_native<at::_ops::nll_loss2d_forward, &nll_forward<true>>(m);
  register_native<at::_ops::nll_loss2d_backward, &nll_backward<true>>(m);
  register_native<at::_ops::mse_loss, &mse>(m);
  register_native<at::_ops::mse_loss_backward, &mse_backward>(m);
  register_native<at::_ops::binary_cross_entropy, &bce>(m);
  register_native<at::_ops::binary_cross_entropy_backward, &bce_backward>(m);
}

}  // namespace
}  // namespace mydev
