// _softmax, _log_softmax and their backwards.
//
// Operands are made contiguous and seen as [outer, dim, inner].
#include <ATen/Operators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>

#include "aten/host/native_or_host.h"

namespace mydev {
namespace {

using at::Tensor;

KernelRef softmax_kernel("mydev.softmax");
KernelRef log_softmax_kernel("mydev.log_softmax");
KernelRef softmax_backward_kernel("mydev.softmax_backward");
KernelRef log_softmax_backward_kernel("mydev.log_softmax_backward");

std::array<int64_t, 3> lines_along(const Tensor& self, int64_t dim) {
  std::array<int64_t, 3> sizes = {1, 1, 1};
  for (int64_t d = 0; d < self.dim(); ++d) sizes[d < dim ? 0 : d == dim ? 1 : 2] *= self.size(d);
  return sizes;
}

// One input for the forward kernels, two for the backward ones; all of one shape and dtype.
template <size_t kInputs>
std::optional<Tensor> launch_softmax(KernelRef& ref, const std::array<Tensor, kInputs>& inputs, int64_t dim,
                                     const Tensor* given) {
  const Tensor& self = inputs[0];
  const Launchable* kernel = on_device(self) ? ref.for_operand(self) : nullptr;
  if (kernel == nullptr) return std::nullopt;
  for (const Tensor& input : inputs) {
    if (!on_device(input) || input.device() != self.device() || input.scalar_type() != self.scalar_type() ||
        input.sizes() != self.sizes() || (given != nullptr && !writable_as(*given, self.scalar_type(), input))) {
      return std::nullopt;
    }
  }
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  if (given != nullptr) at::native::resize_output(*given, self.sizes());
  if (given != nullptr && !given->is_contiguous()) return std::nullopt;
  const Tensor out = given != nullptr ? *given : empty_dense(self.sizes(), self);
  if (self.numel() == 0) return out;
  const std::array<int64_t, 3> sizes = lines_along(self, wrapped);
  const std::array<int64_t, 3> strides = {sizes[1] * sizes[2], sizes[2], 1};
  std::array<Tensor, kInputs> dense;
  std::array<mydev_buffer, 1 + kInputs> buffers;
  buffers[0] = buffer_of(out, sizes, strides);
  for (size_t i = 0; i < kInputs; ++i) {
    dense[i] = inputs[i].contiguous();
    buffers[1 + i] = input_buffer_of(dense[i], sizes, strides);
  }
  launch_on(*kernel, self, 1, buffers);
  return out;
}

template <KernelRef& kernel>
std::optional<Tensor> forward(const Tensor& self, int64_t dim, bool half_to_float) {
  return half_to_float ? std::nullopt : launch_softmax<1>(kernel, {self}, dim, nullptr);
}
template <KernelRef& kernel>
Tensor* forward_out(const Tensor& self, int64_t dim, bool half_to_float, Tensor& out) {
  return !half_to_float && launch_softmax<1>(kernel, {self}, dim, &out) ? &out : nullptr;
}
template <KernelRef& kernel>
std::optional<Tensor> backward(const Tensor& grad, const Tensor& output, int64_t dim, at::ScalarType input_dtype) {
  return input_dtype == grad.scalar_type() ? launch_softmax<2>(kernel, {grad, output}, dim, nullptr) : std::nullopt;
}
template <KernelRef& kernel>
Tensor* backward_out(const Tensor& grad, const Tensor& output, int64_t dim, at::ScalarType input_dtype, Tensor& out) {
  return input_dtype == grad.scalar_type() && launch_softmax<2>(kernel, {grad, output}, dim, &out) ? &out : nullptr;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::_softmax, &forward<softmax_kernel>>(m);
  register_native<at::_ops::_softmax_out, &forward_out<softmax_kernel>>(m);
  register_native<at::_ops::_log_softmax, &forward<log_softmax_kernel>>(m);
  register_native<at::_ops::_log_softmax_out, &forward_out<log_softmax_kernel>>(m);
  register_native<at::_ops::_softmax_backward_data, &backward<softmax_backward_kernel>>(m);
  register_native<at::_ops::_softmax_backward_data_out, &backward_out<softmax_backward_kernel>>(m);
  register_native<at::_ops::_log_softmax_backward_data, &backward<log_softmax_backward_kernel>>(m);
  register_native<at::_ops::_log_softmax_backward_data_out, &backward_out<log_softmax_backward_kernel>>(m);
}

}  // namespace
}  // namespace mydev
