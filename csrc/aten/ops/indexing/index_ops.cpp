// index_select, gather, embedding and embedding's gradient.
#include <ATen/Operators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>

#include "aten/host/native_or_host.h"

namespace mydev {
namespace {

using at::Tensor;

KernelRef index_select_kernel("mydev.index_select");
KernelRef gather_kernel("mydev.gather");
KernelRef embedding_backward_kernel("mydev.embedding_backward");

bool is_index(const Tensor& index, const Tensor& self) {
  return on_device(index) && index.device() == self.device() &&
         (index.scalar_type() == at::kLong || index.scalar_type() == at::kInt);
}

// out[o, i, :] = self[o, index[i], :], self seen as [outer, limit, inner].
void launch_select(const Launchable& kernel, const Tensor& out, const Tensor& self, const Tensor& index, int64_t outer,
                   int64_t limit, int64_t inner) {
  const Tensor dense = self.contiguous();
  const int64_t picked = index.numel(), stride = index.dim() == 0 ? 1 : index.stride(0);
  const std::array<int64_t, 3> out_sizes = {outer, picked, inner}, in_sizes = {outer, limit, inner},
                               out_strides = {picked * inner, inner, 1}, in_strides = {limit * inner, inner, 1};
  launch_on(kernel, self, 1,
            {buffer_of(out, out_sizes, out_strides), input_buffer_of(dense, in_sizes, in_strides),
             input_buffer_of(index, {&picked, 1}, {&stride, 1})});
}

std::optional<Tensor> select(const Tensor& self, int64_t dim, const Tensor& index, const Tensor* given) {
  const Launchable* kernel = on_device(self) ? index_select_kernel.on(self) : nullptr;
  if (kernel == nullptr || !is_index(index, self) || index.dim() > 1 || !has_frame_type(self) || self.dim() == 0 ||
      (given != nullptr && (!writable_as(*given, self.scalar_type(), self) || given->is_alias_of(index)))) {
    return std::nullopt;
  }
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  if (self.size(wrapped) == 0 && index.numel() > 0) return std::nullopt;  // whatever the index, it is out of range
  at::DimVector shape(self.sizes());
  shape[static_cast<size_t>(wrapped)] = index.numel();
  if (given != nullptr) at::native::resize_output(*given, shape);
  if (given != nullptr && !given->is_contiguous()) return std::nullopt;
  const Tensor out = given != nullptr ? *given : empty_dense(shape, self);
  int64_t outer = 1, inner = 1;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (d != wrapped) (d < wrapped ? outer : inner) *= self.size(d);
  }
  launch_select(*kernel, out, self, index, outer, self.size(wrapped), inner);
  return out;
}

std::optional<Tensor> index_select(const Tensor& self, int64_t dim, const Tensor& index) {
  return select(self, dim, index, nullptr);
}
Tensor* index_select_out(const Tensor& self, int64_t dim, const Tensor& index, Tensor& out) {
  return select(self, dim, index, &out).has_value() ? &out : nullptr;
}

std::optional<Tensor> gather(const Tensor& self, int64_t dim, const Tensor& index, bool /*sparse_grad*/) {
  const Launchable* kernel = on_device(self) ? gather_kernel.on(self) : nullptr;
  if (kernel == nullptr || !is_index(index, self) || index.scalar_type() != at::kLong || !has_frame_type(self) ||
      self.dim() == 0 || index.dim() != self.dim() || self.dim() > kMaxRank) {
    return std::nullopt;
  }
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (d != wrapped && index.size(d) > self.size(d)) return std::nullopt;
  }
  const Tensor out = empty_dense(index.sizes(), self);
  if (out.numel() == 0) return out;
  OpFrame<3, 1> frame;
  frame.add(out).add(self).add(index).attribute(int_attribute("dim", wrapped)).launch(*kernel, 1);
  return out;
}

std::optional<Tensor> embedding(const Tensor& weight, const Tensor& indices, c10::SymInt /*padding_idx*/,
                                bool /*scale_grad_by_freq*/, bool /*sparse*/) {
  const Launchable* kernel = on_device(weight) ? index_select_kernel.on(weight) : nullptr;
  const bool out_of_range = weight.numel() == 0 && indices.numel() > 0;  // whatever the index: the CPU says so
  if (kernel == nullptr || weight.dim() != 2 || !is_index(indices, weight) || !has_frame_type(weight) || out_of_range) {
    return std::nullopt;
  }
  at::DimVector shape(indices.sizes());
  shape.push_back(weight.size(1));
  const Tensor out = empty_dense(shape, weight);
  const Tensor line = indices.dim() == 1 ? indices : indices.contiguous().view({indices.numel()});
  launch_select(*kernel, out, weight, line, 1, weight.size(0), weight.size(1));
  return out;
}

std::optional<Tensor> embedding_backward(const Tensor& grad, const Tensor& indices, c10::SymInt num_weights,
                                         c10::SymInt padding_idx, bool scale_grad_by_freq) {
  const Launchable* kernel = on_device(grad) ? embedding_backward_kernel.for_operand(grad) : nullptr;
  if (kernel == nullptr || !is_index(indices, grad) || grad.dim() == 0) return std::nullopt;
  const int64_t width = grad.size(-1), count = indices.numel(), stride = 1;
  const Tensor dense = grad.contiguous(), line = indices.contiguous();
  const Tensor out = empty_dense({num_weights.expect_int(), width}, grad);
  const std::array<int64_t, 2> sizes = {count, width}, strides = {width, 1};
  launch_on(*kernel, grad, 1,
            {buffer_of(out), input_buffer_of(dense, sizes, strides), input_buffer_of(line, {&count, 1}, {&stride, 1})},
            {int_attribute("padding_idx", padding_idx.expect_int()),
             bool_attribute("scale_by_frequency", scale_grad_by_freq)});
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::index_select, &index_select>(m);
  register_native<at::_ops::index_select_out, &index_select_out>(m);
  register_native<at::_ops::gather, &gather>(m);
  register_native<at::_ops::embedding, &embedding>(m);
  register_native<at::_ops::embedding_dense_backward, &embedding_backward>(m);
}

}  // namespace
}  // namespace mydev
