// Two-dimensional pooling: max_pool2d_with_indices, avg_pool2d, _adaptive_avg_pool2d and their gradients, one launch
// each.
//
// The kernels take f32, f64, bf16 and f16 images, single ones and batches, of any strides; results lie in the memory
// format that the input suggests, as on the CPU. Other dtypes, empty operands, out= results and whatever the op refuses
// run the CPU's kernel, whose checks and messages are thereby ours.
#include <ATen/Operators.h>
#include <ATen/native/Pool.h>
#include <torch/library.h>

#include <array>

#include "aten/host/native_or_host.h"

namespace mydev {
namespace {

using at::IntArrayRef;
using at::Tensor;

KernelRef max_pool_kernel("mydev.max_pool2d");
KernelRef max_pool_backward_kernel("mydev.max_pool2d_backward");
KernelRef average_kernel("mydev.avg_pool2d");
KernelRef average_backward_kernel("mydev.avg_pool2d_backward");
KernelRef adaptive_kernel("mydev.adaptive_avg_pool2d");
KernelRef adaptive_backward_kernel("mydev.adaptive_avg_pool2d_backward");

using Pair = std::array<int64_t, 2>;

// One number for both dimensions, or one each; none: `otherwise`.
std::optional<Pair> pair_of(IntArrayRef values, std::optional<Pair> otherwise = std::nullopt) {
  if (values.size() == 1) return Pair{values[0], values[0]};
  if (values.size() == 2) return Pair{values[0], values[1]};
  return values.empty() ? otherwise : std::nullopt;
}

bool is_image(const Tensor& tensor, KernelRef& kernel) {
  return on_device(tensor) && (tensor.dim() == 3 || tensor.dim() == 4) && tensor.numel() > 0 && !tensor.is_neg() &&
         kernel.for_operand(tensor) != nullptr;
}

bool fits_image(const Tensor& tensor, const Tensor& image, c10::ScalarType dtype) {
  return tensor.device() == image.device() && tensor.scalar_type() == dtype && tensor.dim() == image.dim() &&
         !tensor.is_neg();
}

struct Window {
  Pair kernel, stride, padding, dilation;
  Pair out;  // height, width
};

// The window, if the op accepts it; the CPU's kernel says what is wrong with the others.
std::optional<Window> window_of(const Tensor& image, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                                IntArrayRef dilation, bool ceil_mode) {
  const auto kernel_pair = pair_of(kernel);
  const auto stride_pair = pair_of(stride, kernel_pair);
  const auto padding_pair = pair_of(padding), dilation_pair = pair_of(dilation);
  if (!kernel_pair || !stride_pair || !padding_pair || !dilation_pair) return std::nullopt;
  Window window{*kernel_pair, *stride_pair, *padding_pair, *dilation_pair, {}};
  for (size_t i = 0; i < 2; ++i) {
    if (window.kernel[i] < 1 || window.stride[i] < 1 || window.dilation[i] < 1 || window.padding[i] < 0 ||
        window.padding[i] > window.kernel[i] / 2) {
      return std::nullopt;
    }
    window.out[i] =
        at::native::pooling_output_shape<int64_t>(image.size(-2 + static_cast<int64_t>(i)), window.kernel[i],
                                                  window.padding[i], window.stride[i], window.dilation[i], ceil_mode);
    if (window.out[i] < 1) return std::nullopt;
  }
  return window;
}

c10::SmallVector<int64_t, 4> pooled_sizes(const Tensor& image, Pair out) {
  c10::SmallVector<int64_t, 4> sizes(image.sizes().begin(), image.sizes().end());
  sizes[sizes.size() - 2] = out[0];
  sizes[sizes.size() - 1] = out[1];
  return sizes;
}

Tensor empty_like_image(IntArrayRef sizes, const Tensor& image, c10::ScalarType dtype) {
  return empty_in_format(sizes, image.suggest_memory_format(), dtype, image.device());
}

// An image as [N, C, H, W]: without a batch it is a batch of one. Its buffers borrow its sizes and strides.
class Image {
 public:
  explicit Image(const Tensor& tensor) : tensor_(tensor) {
    const size_t skipped = 4 - static_cast<size_t>(tensor.dim());
    std::copy(tensor.sizes().begin(), tensor.sizes().end(), sizes_.begin() + skipped);
    std::copy(tensor.strides().begin(), tensor.strides().end(), strides_.begin() + skipped);
  }
  mydev_buffer output() const { return buffer_of(tensor_, sizes_, strides_); }
  mydev_buffer input() const { return input_buffer_of(tensor_, sizes_, strides_); }

 private:
  const Tensor& tensor_;
  std::array<int64_t, 4> sizes_ = {1}, strides_ = {1};
};

std::optional<std::tuple<Tensor, Tensor>> max_pool(const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                                                   IntArrayRef padding, IntArrayRef dilation, bool ceil_mode) {
  const auto window =
      is_image(self, max_pool_kernel) ? window_of(self, kernel, stride, padding, dilation, ceil_mode) : std::nullopt;
  if (!window) return std::nullopt;
  const auto sizes = pooled_sizes(self, window->out);
  Tensor out = empty_like_image(sizes, self, self.scalar_type());
  Tensor indices = empty_like_image(sizes, self, at::kLong);
  launch_on(*max_pool_kernel.on(self), self, 2, {Image(out).output(), Image(indices).output(), Image(self).input()},
            {int_array_attribute("kernel", window->kernel), int_array_attribute("stride", window->stride),
             int_array_attribute("padding", window->padding), int_array_attribute("dilation", window->dilation)});
  return std::tuple(std::move(out), std::move(indices));
}

std::optional<Tensor> max_pool_backward(const Tensor& grad_output, const Tensor& self, IntArrayRef kernel,
                                        IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil_mode,
                                        const Tensor& indices) {
  const auto window = is_image(self, max_pool_backward_kernel)
                          ? window_of(self, kernel, stride, padding, dilation, ceil_mode)
                          : std::nullopt;
  if (!window || !fits_image(grad_output, self, self.scalar_type()) || !fits_image(indices, self, at::kLong) ||
      grad_output.sizes() != IntArrayRef(pooled_sizes(self, window->out)) || indices.sizes() != grad_output.sizes()) {
    return std::nullopt;
  }
  Tensor grad_input = empty_like_image(self.sizes(), self, self.scalar_type());
  launch_on(*max_pool_backward_kernel.on(self), self, 1,
            {Image(grad_input).output(), Image(grad_output).input(), Image(indices).input()});
  return grad_input;
}

// The window of an average, if the kernels take it.
std::optional<Window> average_window(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                                     bool ceil_mode, std::optional<int64_t> divisor, KernelRef& record) {
  if (!is_image(self, record) || divisor.value_or(1) == 0) return std::nullopt;
  return window_of(self, kernel, stride, padding, {1, 1}, ceil_mode);
}

std::array<mydev_attribute, 5> average_attributes(const Window& window, bool count_include_pad,
                                                  std::optional<int64_t> divisor) {
  return {int_array_attribute("kernel", window.kernel), int_array_attribute("stride", window.stride),
          int_array_attribute("padding", window.padding), bool_attribute("count_include_pad", count_include_pad),
          int_attribute("divisor", divisor.value_or(0))};
}

std::optional<Tensor> average_pool(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                                   bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor) {
  const auto window = average_window(self, kernel, stride, padding, ceil_mode, divisor, average_kernel);
  if (!window) return std::nullopt;
  Tensor out = empty_like_image(pooled_sizes(self, window->out), self, self.scalar_type());
  launch_on(*average_kernel.on(self), self, 1, {Image(out).output(), Image(self).input()},
            average_attributes(*window, count_include_pad, divisor));
  return out;
}

std::optional<Tensor> average_pool_backward(const Tensor& grad_output, const Tensor& self, IntArrayRef kernel,
                                            IntArrayRef stride, IntArrayRef padding, bool ceil_mode,
                                            bool count_include_pad, std::optional<int64_t> divisor) {
  const auto window = average_window(self, kernel, stride, padding, ceil_mode, divisor, average_backward_kernel);
  if (!window || !fits_image(grad_output, self, self.scalar_type()) ||
      grad_output.sizes() != IntArrayRef(pooled_sizes(self, window->out))) {
    return std::nullopt;
  }
  Tensor grad_input = empty_like_image(self.sizes(), self, self.scalar_type());
  launch_on(*average_backward_kernel.on(self), self, 1, {Image(grad_input).output(), Image(grad_output).input()},
            average_attributes(*window, count_include_pad, divisor));
  return grad_input;
}

std::optional<Tensor> adaptive_average_pool(const Tensor& self, c10::SymIntArrayRef output_size) {
  const auto sizes = c10::asIntArrayRefSlowOpt(output_size);
  if (!sizes || sizes->size() != 2 || (*sizes)[0] < 1 || (*sizes)[1] < 1 || !is_image(self, adaptive_kernel)) {
    return std::nullopt;
  }
  Tensor out = empty_like_image(pooled_sizes(self, {(*sizes)[0], (*sizes)[1]}), self, self.scalar_type());
  launch_on(*adaptive_kernel.on(self), self, 1, {Image(out).output(), Image(self).input()});
  return out;
}

std::optional<Tensor> adaptive_average_pool_backward(const Tensor& grad_output, const Tensor& self) {
  if (!is_image(self, adaptive_backward_kernel) || !fits_image(grad_output, self, self.scalar_type()) ||
      grad_output.numel() == 0 ||
      grad_output.sizes().slice(0, self.dim() - 2) != self.sizes().slice(0, self.dim() - 2)) {
    return std::nullopt;
  }
  Tensor grad_input = empty_like_image(self.sizes(), self, self.scalar_type());
  launch_on(*adaptive_backward_kernel.on(self), self, 1, {Image(grad_input).output(), Image(grad_output).input()});
  return grad_input;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::max_pool2d_with_indices, &max_pool>(m);
  register_native<at::_ops::max_pool2d_with_indices_backward, &max_pool_backward>(m);
  register_native<at::_ops::avg_pool2d, &average_pool>(m);
  register_native<at::_ops::avg_pool2d_backward, &average_pool_backward>(m);
  register_native<at::_ops::_adaptive_avg_pool2d, &adaptive_average_pool>(m);
  register_native<at::_ops::_adaptive_avg_pool2d_backward, &adaptive_average_pool_backward>(m);
}

}  // namespace
}  // namespace mydev
