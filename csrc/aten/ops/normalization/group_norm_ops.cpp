// group_norm, forward and backward.
//
// The kernel sees [N, G, D, S]: groups of channels with the places of an image. A channels-last input stays
// channels-last. Beside a half type, weight and bias may both be f32, and then the statistics are; other mixes, and
// what is wrong, fall back.
#include <ATen/Operators.h>

#include "aten/host/native_or_host.h"
#include "aten/ops/optional_tensor.h"

namespace mydev {
namespace {

using at::Tensor;
using Triple = std::tuple<Tensor, Tensor, Tensor>;

// The CPU's kernels are faster over channels-last images, up to twice, and over half types.
KernelRef group_norm_kernel("mydev.group_norm", policy::kGroupNorm);
KernelRef group_norm_backward_kernel("mydev.group_norm_backward", policy::kGroupNorm);

// The kernel's view of an image [N, C, ...] that is dense in its own memory format.
struct Groups {
  c10::MemoryFormat format;
  int64_t samples, channels, groups;
  bool valid = false;
  std::array<int64_t, 4> sizes{}, strides{};

  Groups(const Tensor& input, int64_t count) : format(input.suggest_memory_format()), groups(count) {
    if (input.dim() < 2 || count <= 0 || input.size(1) % count != 0 || input.numel() == 0) return;
    samples = input.size(0);
    channels = input.size(1);
    const int64_t places = input.numel() / samples / channels, depth = channels / count;
    sizes = {samples, count, depth, places};
    const bool channels_last = format != c10::MemoryFormat::Contiguous;
    strides = channels_last ? std::array<int64_t, 4>{channels * places, depth, 1, channels}
                            : std::array<int64_t, 4>{channels * places, depth * places, places, 1};
    valid = on_device(input) && input.is_contiguous(format);
  }
  mydev_buffer input(const Tensor& image) const { return input_buffer_of(image, sizes, strides); }
  mydev_buffer output(const Tensor& image) const { return buffer_of(image, sizes, strides); }
};

// A dense vector of channels as [G, D].
class ChannelVector {
 public:
  ChannelVector(const Groups& groups, at::ScalarType type)
      : sizes_{groups.sizes[1], groups.sizes[2]}, strides_{groups.sizes[2], 1}, type_(to_frame_dtype(type)) {}
  mydev_buffer input(const OptionalTensor& tensor) const {
    return given(tensor) ? input_buffer_of(*tensor, sizes_, strides_) : absent_buffer(type_);
  }
  mydev_buffer output(const Tensor& tensor) const {
    return tensor.defined() ? buffer_of(tensor, sizes_, strides_) : absent_buffer(type_);
  }

 private:
  std::array<int64_t, 2> sizes_, strides_;
  mydev_dtype type_;
};

bool fits_groups(const Groups& groups, c10::SymInt samples, c10::SymInt channels, c10::SymInt places) {
  return groups.valid && samples == groups.samples && channels == groups.channels && places == groups.sizes[3];
}

std::optional<Triple> group_norm(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                 c10::SymInt samples, c10::SymInt channels, c10::SymInt places, int64_t group,
                                 double eps) {
  const Launchable* kernel = on_device(input) ? group_norm_kernel.for_operand(input) : nullptr;
  if (kernel == nullptr) return std::nullopt;
  const Groups groups(input, group);
  if (!fits_groups(groups, std::move(samples), std::move(channels), std::move(places)) ||
      !is_channel_vector(pointer_to(weight), input) || !is_channel_vector(pointer_to(bias), input)) {
    return std::nullopt;
  }
  const std::optional<at::ScalarType> type = parameter_type(input, {pointer_to(weight), pointer_to(bias)});
  if (!type.has_value()) return std::nullopt;
  Tensor out = empty_laid_out_as(input, input.scalar_type());
  Tensor mean = empty_dense({groups.samples, group}, *type, input.device());
  Tensor rstd = empty_dense({groups.samples, group}, *type, input.device());
  const ChannelVector vector(groups, *type);
  launch_on(*kernel, input, 3,
            {groups.output(out), buffer_of(mean), buffer_of(rstd), groups.input(input), vector.input(weight),
             vector.input(bias)},
            {float_attribute("eps", eps)});
  return Triple(std::move(out), std::move(mean), std::move(rstd));
}

std::optional<Triple> group_norm_backward(const Tensor& grad, const Tensor& input, const Tensor& mean,
                                          const Tensor& rstd, const OptionalTensor& weight, c10::SymInt samples,
                                          c10::SymInt channels, c10::SymInt places, int64_t group,
                                          std::array<bool, 3> wanted) {
  const Launchable* kernel = on_device(input) ? group_norm_backward_kernel.for_operand(input) : nullptr;
  if (kernel == nullptr) return std::nullopt;
  const Groups groups(input, group);
  const auto is_statistic = [&](const Tensor& tensor) {
    return tensor.sizes() == c10::IntArrayRef({groups.samples, group}) && on_device(tensor) &&
           tensor.device() == input.device() && tensor.is_contiguous();
  };
  if (!fits_groups(groups, std::move(samples), std::move(channels), std::move(places)) ||
      !is_channel_vector(pointer_to(weight), input) || !grad.defined() || !on_device(grad) ||
      grad.device() != input.device() || grad.scalar_type() != input.scalar_type() || grad.sizes() != input.sizes() ||
      !is_statistic(mean) || !is_statistic(rstd)) {
    return std::nullopt;
  }
  const std::optional<at::ScalarType> type = parameter_type(input, {pointer_to(weight), &mean, &rstd});
  if (!type.has_value()) return std::nullopt;
  const Tensor dense = grad.contiguous(groups.format);
  const auto vector_if = [&](bool is_wanted) {
    return is_wanted ? empty_dense({groups.channels}, *type, input.device()) : Tensor();
  };
  Tensor grad_in = wanted[0] ? empty_laid_out_as(input, input.scalar_type()) : Tensor();
  Tensor grad_weight = vector_if(wanted[1]), grad_bias = vector_if(wanted[2]);
  const ChannelVector vector(groups, *type);
  launch_on(*kernel, input, 3,
            {grad_in.defined() ? groups.output(grad_in) : absent_buffer(to_frame_dtype(input.scalar_type())),
             vector.output(grad_weight), vector.output(grad_bias), groups.input(dense), groups.input(input),
             input_buffer_of(mean), input_buffer_of(rstd), vector.input(weight)});
  return Triple(std::move(grad_in), std::move(grad_weight), std::move(grad_bias));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::native_group_norm, &group_norm>(m);
  register_native<at::_ops::native_group_norm_backward, &group_norm_backward>(m);
}

}  // namespace
}  // namespace mydev
