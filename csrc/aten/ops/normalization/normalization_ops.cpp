// batch_norm and layer_norm, forward and backward, in all their overloads.
//
// Running statistics are updated in place by the kernel itself. A channels-last input stays channels-last: to the
// kernel it is rows of channels. Beside a half type, statistics and weights may all be f32; other mixes fall back.
#include <ATen/Operators.h>

#include "aten/host/native_or_host.h"
#include "aten/ops/optional_tensor.h"

namespace mydev {
namespace {

using at::Tensor;
using Triple = std::tuple<Tensor, Tensor, Tensor>;

KernelRef training_kernel("mydev.batch_norm_training");
KernelRef inference_kernel("mydev.batch_norm_inference");
KernelRef batch_norm_backward_kernel("mydev.batch_norm_backward");
KernelRef layer_norm_kernel("mydev.layer_norm");
KernelRef layer_norm_backward_kernel("mydev.layer_norm_backward");

// An operand with its own sizes and strides, or an absent one.
mydev_buffer output_or_absent(const Tensor& tensor, at::ScalarType dtype) {
  return tensor.defined() ? buffer_of(tensor) : absent_buffer(to_frame_dtype(dtype));
}
mydev_buffer output_or_absent(const OptionalTensor& tensor, at::ScalarType dtype) {
  return output_or_absent(given(tensor) ? *tensor : Tensor(), dtype);
}
mydev_buffer input_or_absent(const Tensor& tensor, at::ScalarType dtype) {
  return tensor.defined() ? input_buffer_of(tensor) : absent_buffer(to_frame_dtype(dtype));
}
mydev_buffer input_or_absent(const OptionalTensor& tensor, at::ScalarType dtype) {
  return input_or_absent(given(tensor) ? *tensor : Tensor(), dtype);
}

// --- batch norm ----------------------------------------------------------------------------------------------------

using Vectors = std::initializer_list<const Tensor*>;

// The CPU lays a result out in the first format in which the input is dense, a gradient as the input's strides suggest.
c10::MemoryFormat result_format(const Tensor& input) {
  for (const auto format : {c10::MemoryFormat::Contiguous, c10::MemoryFormat::ChannelsLast}) {
    if (input.is_contiguous(format)) return format;
  }
  return input.suggest_memory_format();
}

// The kernel's view of [N, C, ...]: [N, C, S] dense, or rows of channels.
struct Channels {
  c10::MemoryFormat format;
  std::array<int64_t, 3> sizes, strides;

  Channels(const Tensor& input, c10::MemoryFormat of_result) : format(of_result) {
    const int64_t samples = input.size(0), channels = input.size(1);
    int64_t places = 1;
    for (int64_t d = 2; d < input.dim(); ++d) places *= input.size(d);
    if (format == c10::MemoryFormat::Contiguous) {
      sizes = {samples, channels, places};
    } else {
      sizes = {samples * places, channels, 1};
    }
    strides = {sizes[1] * sizes[2], sizes[2], 1};
  }
  mydev_buffer output(const Tensor& tensor) const { return buffer_of(tensor, sizes.data(), strides.data(), 3); }
  mydev_buffer input(const Tensor& tensor) const { return input_buffer_of(tensor, sizes.data(), strides.data(), 3); }
  Tensor empty(const Tensor& input) const {
    return empty_in_format(input.sizes(), format, input.scalar_type(), input.device());
  }
};

bool can_normalise(const Tensor& input, Vectors vectors) {
  if (!on_device(input) || input.dim() < 2 || input.numel() == 0) return false;
  for (const Tensor* vector : vectors) {
    if (!is_channel_vector(vector, input)) return false;
  }
  return true;
}

// Writes out, and with `training` also save_mean and save_invstd, all defined and of the right shape.
bool launch_batch_norm(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                       const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training,
                       double momentum, double eps, const Channels& channels, const Tensor& out,
                       const Tensor& save_mean, const Tensor& save_invstd) {
  const at::ScalarType type = save_mean.scalar_type();
  const Launchable* kernel = (training ? training_kernel : inference_kernel).for_operand(input);
  if (kernel == nullptr) return false;
  const Tensor dense = input.contiguous(channels.format);
  if (training) {
    launch_on(*kernel, input, 5,
              {channels.output(out), output_or_absent(save_mean, type), output_or_absent(save_invstd, type),
               output_or_absent(running_mean, type), output_or_absent(running_var, type), channels.input(dense),
               input_or_absent(weight, type), input_or_absent(bias, type)},
              {float_attribute("momentum", momentum), float_attribute("eps", eps)});
  } else {
    launch_on(*kernel, input, 1,
              {channels.output(out), channels.input(dense), input_or_absent(weight, type), input_or_absent(bias, type),
               input_or_absent(running_mean, type), input_or_absent(running_var, type)},
              {float_attribute("eps", eps)});
  }
  return true;
}

std::optional<Triple> batch_norm(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                 const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training,
                                 double momentum, double eps) {
  const Vectors vectors = {pointer_to(weight), pointer_to(bias), pointer_to(running_mean), pointer_to(running_var)};
  const std::optional<at::ScalarType> type = parameter_type(input, vectors);
  if (!type.has_value() || !can_normalise(input, vectors) || (!training && !given(running_mean)) ||
      given(running_mean) != given(running_var)) {
    return std::nullopt;
  }
  const Channels channels(input, result_format(input));
  const int64_t saved = training ? input.size(1) : 0;
  Tensor out = channels.empty(input);
  Tensor save_mean = empty_dense({saved}, *type, input.device());
  Tensor save_invstd = empty_dense({saved}, *type, input.device());
  if (!launch_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, channels, out,
                         save_mean, save_invstd)) {
    return std::nullopt;
  }
  return Triple(std::move(out), std::move(save_mean), std::move(save_invstd));
}

std::optional<Triple> batch_norm_legit(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                       Tensor& running_mean, Tensor& running_var, bool training, double momentum,
                                       double eps) {
  return batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
}

std::optional<Triple> batch_norm_no_stats(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                          bool training, double momentum, double eps) {
  return batch_norm(input, weight, bias, std::nullopt, std::nullopt, training, momentum, eps);
}

using Quadruple = std::tuple<Tensor, Tensor, Tensor, Tensor>;

// The fourth result is what other libraries keep for backward.
Quadruple with_reserve(Triple&& results, const Tensor& input) {
  return std::tuple_cat(std::move(results), std::tuple(empty_dense({0}, at::kByte, input.device())));
}

std::optional<Quadruple> batch_norm_with_update(const Tensor& input, const OptionalTensor& weight,
                                                const OptionalTensor& bias, Tensor& running_mean, Tensor& running_var,
                                                double momentum, double eps) {
  auto result = batch_norm(input, weight, bias, running_mean, running_var, true, momentum, eps);
  return result.has_value() ? std::optional(with_reserve(*std::move(result), input)) : std::nullopt;
}

std::optional<Quadruple> batch_norm_no_update(const Tensor& input, const OptionalTensor& weight,
                                              const OptionalTensor& bias, const OptionalTensor& running_mean,
                                              const OptionalTensor& running_var, double momentum, double eps) {
  auto result = batch_norm(input, weight, bias, running_mean, running_var, false, momentum, eps);
  return result.has_value() ? std::optional(with_reserve(*std::move(result), input)) : std::nullopt;
}

std::optional<Triple> batch_norm_backward(const Tensor& grad, const Tensor& input, const OptionalTensor& weight,
                                          const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                          const OptionalTensor& save_mean, const OptionalTensor& save_invstd,
                                          bool training, double eps, std::array<bool, 3> output_mask) {
  const OptionalTensor& mean = training ? save_mean : running_mean;
  const OptionalTensor& scale = training ? save_invstd : running_var;
  const std::optional<at::ScalarType> type =
      parameter_type(input, {pointer_to(weight), pointer_to(running_mean), pointer_to(running_var),
                             pointer_to(save_mean), pointer_to(save_invstd)});
  if (!type.has_value() || !can_normalise(input, {pointer_to(weight), pointer_to(mean), pointer_to(scale)}) ||
      !given(mean) || !given(scale) || !on_device(grad) || grad.device() != input.device() ||
      grad.sizes() != input.sizes() || !is_real_float(grad.scalar_type())) {
    return std::nullopt;
  }
  const Launchable* kernel = batch_norm_backward_kernel.for_operand(input);
  if (kernel == nullptr) return std::nullopt;
  const Channels channels(input, input.suggest_memory_format());
  const Tensor dense = input.contiguous(channels.format), dense_grad = grad.contiguous(channels.format);
  const Tensor grad_in = output_mask[0] ? channels.empty(input) : Tensor();
  const auto vector = [&](bool wanted) {
    return wanted ? empty_dense({input.size(1)}, *type, input.device()) : Tensor();
  };
  const Tensor grad_weight = vector(output_mask[1]), grad_bias = vector(output_mask[2]);
  launch_on(*kernel, input, 3,
            {grad_in.defined() ? channels.output(grad_in) : absent_buffer(to_frame_dtype(input.scalar_type())),
             output_or_absent(grad_weight, *type), output_or_absent(grad_bias, *type), channels.input(dense_grad),
             channels.input(dense), input_or_absent(weight, *type), input_or_absent(mean, *type),
             input_or_absent(scale, *type)},
            {bool_attribute("training", training), float_attribute("eps", eps)});
  return Triple(grad_in, grad_weight, grad_bias);
}

std::optional<Triple> new_batch_norm_backward(const Tensor& grad, const Tensor& input, const Tensor& weight,
                                              const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                              const OptionalTensor& save_mean, const OptionalTensor& save_invstd,
                                              bool update, double eps, std::array<bool, 3> output_mask,
                                              const Tensor& /*reserve*/) {
  return batch_norm_backward(grad, input, weight, running_mean, running_var, save_mean, save_invstd, update, eps,
                             output_mask);
}

// --- layer norm ----------------------------------------------------------------------------------------------------

// [M, N]: rows to normalise.
struct Rows {
  std::array<int64_t, 2> sizes = {1, 1}, strides;
  int64_t leading = 0;  // dimensions before the normalised ones
  bool valid = false;

  Rows(const Tensor& input, c10::SymIntArrayRef normalized_shape) {
    const c10::IntArrayRef shape = C10_AS_INTARRAYREF_SLOW(normalized_shape);
    leading = input.dim() - static_cast<int64_t>(shape.size());
    if (shape.empty() || leading < 0 || input.sizes().slice(static_cast<size_t>(leading)) != shape) return;
    for (int64_t d = 0; d < input.dim(); ++d) sizes[d < leading ? 0 : 1] *= input.size(d);
    strides = {sizes[1], 1};
    valid = sizes[0] > 0 && sizes[1] > 0;
  }
  mydev_buffer output(const Tensor& tensor) const { return buffer_of(tensor, sizes.data(), strides.data(), 2); }
  mydev_buffer input(const Tensor& tensor) const { return input_buffer_of(tensor, sizes.data(), strides.data(), 2); }
  at::DimVector statistics_shape(const Tensor& input) const {
    at::DimVector shape(input.sizes());
    for (int64_t d = leading; d < input.dim(); ++d) shape[static_cast<size_t>(d)] = 1;
    return shape;
  }
};

// Weights of the input's dtype, or f32 beside a half type.
bool is_row_vector(const OptionalTensor& tensor, const Tensor& input, c10::SymIntArrayRef shape) {
  if (!given(tensor)) return true;
  const bool mixed = is_half_type(input.scalar_type()) && tensor->scalar_type() == at::kFloat;
  return on_device(*tensor) && tensor->device() == input.device() && tensor->sym_sizes() == shape &&
         (mixed || tensor->scalar_type() == input.scalar_type());
}

Tensor dense_or_undefined(const OptionalTensor& tensor) {
  return given(tensor) ? tensor->contiguous() : Tensor();
}

std::optional<Triple> layer_norm(const Tensor& input, c10::SymIntArrayRef normalized_shape,
                                 const OptionalTensor& weight, const OptionalTensor& bias, double eps) {
  if (!on_device(input) || !is_row_vector(weight, input, normalized_shape) ||
      !is_row_vector(bias, input, normalized_shape) ||
      (given(weight) && given(bias) && weight->scalar_type() != bias->scalar_type())) {
    return std::nullopt;
  }
  const Rows rows(input, normalized_shape);
  const Launchable* kernel = layer_norm_kernel.for_operand(input);
  if (!rows.valid || kernel == nullptr) return std::nullopt;
  const at::ScalarType statistics_type = given(weight) ? weight->scalar_type() : input.scalar_type();
  const Tensor dense = input.contiguous(), w = dense_or_undefined(weight), b = dense_or_undefined(bias);
  Tensor out = empty_dense(input.sizes(), input);
  const at::DimVector shape = rows.statistics_shape(input);
  Tensor mean = empty_dense(shape, statistics_type, input.device());
  Tensor rstd = empty_dense(shape, statistics_type, input.device());
  launch_on(*kernel, input, 3,
            {rows.output(out), output_or_absent(mean, statistics_type), output_or_absent(rstd, statistics_type),
             rows.input(dense), input_or_absent(w, input.scalar_type()), input_or_absent(b, input.scalar_type())},
            {float_attribute("eps", eps)});
  return Triple(std::move(out), std::move(mean), std::move(rstd));
}

std::optional<Triple> layer_norm_backward(const Tensor& grad, const Tensor& input, c10::SymIntArrayRef normalized_shape,
                                          const Tensor& mean, const Tensor& rstd, const OptionalTensor& weight,
                                          const OptionalTensor& bias, std::array<bool, 3> output_mask) {
  if (!on_device(input) || !is_row_vector(weight, input, normalized_shape) || !on_device(grad) ||
      grad.sizes() != input.sizes() || grad.scalar_type() != input.scalar_type() || !on_device(mean) ||
      !on_device(rstd)) {
    return std::nullopt;
  }
  const Rows rows(input, normalized_shape);
  const Launchable* kernel = layer_norm_backward_kernel.for_operand(input);
  if (!rows.valid || kernel == nullptr) return std::nullopt;
  const at::ScalarType weight_type = given(weight) ? weight->scalar_type() : input.scalar_type();
  const Tensor dense = input.contiguous(), dense_grad = grad.contiguous(), w = dense_or_undefined(weight),
               dense_mean = mean.contiguous(), dense_rstd = rstd.contiguous();
  const Tensor grad_in = output_mask[0] ? empty_dense(input.sizes(), input) : Tensor();
  const auto vector = [&](bool wanted) {
    return wanted ? empty_dense(C10_AS_INTARRAYREF_SLOW(normalized_shape), weight_type, input.device()) : Tensor();
  };
  const Tensor grad_weight = vector(output_mask[1]), grad_bias = vector(output_mask[2]);
  launch_on(*kernel, input, 3,
            {grad_in.defined() ? rows.output(grad_in) : absent_buffer(to_frame_dtype(input.scalar_type())),
             output_or_absent(grad_weight, weight_type), output_or_absent(grad_bias, weight_type),
             rows.input(dense_grad), rows.input(dense), input_or_absent(dense_mean, weight_type),
             input_or_absent(dense_rstd, weight_type), input_or_absent(w, weight_type)});
  return Triple(grad_in, grad_weight, grad_bias);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::native_batch_norm, &batch_norm>(m);
  register_native<at::_ops::_native_batch_norm_legit, &batch_norm_legit>(m);
  register_native<at::_ops::_native_batch_norm_legit_no_stats, &batch_norm_no_stats>(m);
  register_native<at::_ops::_batch_norm_with_update, &batch_norm_with_update>(m);
  register_native<at::_ops::_batch_norm_no_update, &batch_norm_no_update>(m);
  register_native<at::_ops::native_batch_norm_backward, &batch_norm_backward>(m);
  register_native<at::_ops::batch_norm_backward, &new_batch_norm_backward>(m);
  register_native<at::_ops::native_layer_norm, &layer_norm>(m);
  register_native<at::_ops::native_layer_norm_backward, &layer_norm_backward>(m);
}

}  // namespace
}  // namespace mydev
