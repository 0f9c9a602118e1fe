// Convolution: core sends every convolution on the device, forward and backward, to the two "overrideable" ops.
//
// A dtype that the kernels are asked for is one launch per result (mydev.convolution and its two gradients). Results
// lie as the CPU's do: channels-last if the input or the weight suggests it, else channels-first. Cases that the
// kernels leave out (operands without elements, output padding beyond the stride) run core's convolution on the CPU.
#include <ATen/Operators.h>
#include <ATen/native/ConvUtils.h>
#include <c10/util/StringUtil.h>
#include <torch/library.h>

#include <algorithm>
#include <array>

#include "aten/host/native_or_host.h"
#include "aten/ops/optional_tensor.h"

namespace mydev {
namespace {

using at::IntArrayRef;
using at::Tensor;

KernelRef forward_kernel("mydev.convolution");
KernelRef data_kernel("mydev.convolution_backward_data");
KernelRef weights_kernel("mydev.convolution_backward_weights");

struct Parameters {
  IntArrayRef stride, padding, dilation;
  bool transposed;
  IntArrayRef output_padding;
  int64_t groups;
};

template <int kBuffers>
using ConvolutionFrame = OpFrame<kBuffers, 6>;

template <int kBuffers>
void add_attributes(ConvolutionFrame<kBuffers>& frame, const Parameters& p) {
  const auto ints = [](IntArrayRef values) { return std::span<const int64_t>(values.data(), values.size()); };
  frame.attribute(int_array_attribute("stride", ints(p.stride)))
      .attribute(int_array_attribute("padding", ints(p.padding)))
      .attribute(int_array_attribute("dilation", ints(p.dilation)))
      .attribute(bool_attribute("transposed", p.transposed))
      .attribute(int_array_attribute("output_padding", ints(p.output_padding)))
      .attribute(int_attribute("groups", p.groups));
}

// Core has checked the other parameters, and leaves these to its backends.
void check_dilation(IntArrayRef dilation) {
  const bool positive = std::all_of(dilation.begin(), dilation.end(), [](int64_t step) { return step > 0; });
  TORCH_CHECK(positive, "non-positive dilation is not supported");
}

// Small float convolutions of one image, and all in dtypes that oneDNN lacks, run without it on the CPU.
bool avoids_onednn(const Tensor& input, const Tensor& weight, int64_t groups) {
  constexpr int64_t kSmall = 20480;
  if (is_half_type(input.scalar_type())) return false;
  return input.scalar_type() != at::kFloat ||
         (groups == 1 && input.size(0) == 1 && (weight.size(-1) <= 3 || weight.size(-2) <= 3) &&
          input.size(1) * input.size(2) * input.size(3) <= kSmall);
}

// `smallest` is 0 or 1: without oneDNN the CPU's transposed convolution refuses a result without elements.
void check_result(IntArrayRef sizes, const Tensor& input, int64_t smallest) {
  if (std::all_of(sizes.begin(), sizes.end(), [smallest](int64_t size) { return size >= smallest; })) return;
  const auto text = [](IntArrayRef all) { return c10::str("(", c10::Join(" x ", all.slice(2)), ")"); };
  TORCH_CHECK(false, "Given input size per channel: ", text(input.sizes()),
              ". Calculated output size per channel: ", text(sizes), ". Output size is too small");
}

// Whether it can be an operand beside `like`.
bool matches_input(const Tensor& tensor, const Tensor& like) {
  return tensor.scalar_type() == like.scalar_type() && tensor.device() == like.device() && !tensor.is_neg() &&
         !tensor.is_conj() && tensor.numel() > 0 && tensor.dim() == like.dim();
}

// Whether a kernel's frame can be made of the operands.
bool has_frame(const Tensor& input, const Tensor& weight, const Parameters& p) {
  if (!on_device(input) || !matches_input(input, input) || !matches_input(weight, input)) return false;
  const int64_t spatial = input.dim() - 2;
  if (spatial < 1 || spatial > 3) return false;
  for (const IntArrayRef list : {p.stride, p.padding, p.dilation, p.output_padding}) {
    if (static_cast<int64_t>(list.size()) != spatial) return false;
  }
  for (size_t i = 0; i < p.stride.size(); ++i) {
    if (p.padding[i] < 0 || (p.transposed && p.output_padding[i] >= p.stride[i])) return false;
  }
  return true;
}

// Whether oneDNN computes in float16 here.
bool has_half_arithmetic() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx512fp16") != 0;
  return has;
#else
  return false;
#endif
}

// On the CPU small convolutions of one volume, and those of float16 volumes where the processor does not compute in it,
// run without oneDNN, and that code knows no channels-last.
bool ignores_channels_last(const Tensor& input, const Tensor& weight, int64_t groups) {
  if (input.dim() == 5 && input.scalar_type() == at::kHalf) return !has_half_arithmetic();
  return input.dim() == 5 && avoids_onednn(input, weight, groups);
}

// A result of the CPU's memory format.
Tensor empty_result(IntArrayRef sizes, const Tensor& input, const Tensor& weight, int64_t groups) {
  const bool channels_last = at::native::mkldnn_conv_use_channels_last(input, weight) ||
                             input.suggest_memory_format() == at::MemoryFormat::ChannelsLast ||
                             weight.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
  if (!channels_last || sizes.size() < 4 || ignores_channels_last(input, weight, groups)) {
    return empty_dense(sizes, input);
  }
  const auto strides =
      sizes.size() == 5 ? c10::get_channels_last_strides_3d(sizes) : c10::get_channels_last_strides_2d(sizes);
  return empty_strided_on(sizes, strides, input.scalar_type(), input.device());
}

std::optional<Tensor> try_convolution(const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                                      const Parameters& p) {
  const auto [stride, padding, dilation, transposed, output_padding, groups] = p;
  const bool has_bias = given(bias);
  const bool bias_fits = !has_bias || (bias->scalar_type() == input.scalar_type() && bias->device() == input.device() &&
                                       bias->dim() == 1 && !bias->is_neg() && !bias->is_conj());
  if (!has_frame(input, weight, p) || !bias_fits) return std::nullopt;
  const Launchable* kernel = forward_kernel.for_operand(input);
  if (kernel == nullptr) return std::nullopt;
  check_dilation(dilation);
  const auto sizes = transposed
                         ? at::native::conv_input_size(input.sizes(), weight.sizes(), padding, output_padding, stride,
                                                       dilation, groups)
                         : at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation);
  check_result(sizes, input, /*smallest=*/transposed && avoids_onednn(input, weight, groups) ? 1 : 0);
  Tensor out = empty_result(sizes, input, weight, groups);
  ConvolutionFrame<4> frame;
  frame.add(out).add(input).add(weight);
  if (has_bias) frame.add(*bias);
  add_attributes(frame, p);
  frame.launch(*kernel, 1);
  return out;
}

Tensor convolution(const Tensor& input, const Tensor& weight, const OptionalTensor& bias, IntArrayRef stride,
                   IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                   int64_t groups) {
  const Parameters p{stride, padding, dilation, transposed, output_padding, groups};
  if (auto out = try_kernels<at::_ops::convolution>([&] { return try_convolution(input, weight, bias, p); })) {
    return *std::move(out);
  }
  return HostOp<at::_ops::convolution>::call(input, weight, bias, c10::fromIntArrayRefSlow(stride),
                                             c10::fromIntArrayRefSlow(padding), c10::fromIntArrayRefSlow(dilation),
                                             transposed, c10::fromIntArrayRefSlow(output_padding), groups);
}

using ConvolutionGradients = std::tuple<Tensor, Tensor, Tensor>;

int64_t out_channels_of(const Tensor& weight, const Parameters& p) {
  return p.transposed ? weight.size(1) * p.groups : weight.size(0);
}

std::optional<ConvolutionGradients> try_convolution_backward(const Tensor& grad_output, const Tensor& input,
                                                             const Tensor& weight, const Parameters& p,
                                                             std::array<bool, 3> output_mask) {
  const bool transposed = p.transposed;
  const int64_t out_channels = out_channels_of(weight, p);
  if (!has_frame(input, weight, p) || !matches_input(grad_output, input)) return std::nullopt;
  const auto [wants_input, wants_weight, wants_bias] = output_mask;
  const Launchable *of_data = data_kernel.for_operand(input), *of_weights = weights_kernel.for_operand(input);
  if ((wants_input && of_data == nullptr) || (wants_weight && of_weights == nullptr)) return std::nullopt;
  Tensor grad_input, grad_weight, grad_bias;
  if (wants_input) {
    grad_input = empty_result(input.sizes(), input, weight, p.groups);
    ConvolutionFrame<3> frame;
    frame.add(grad_input).add(grad_output).add(weight);
    add_attributes(frame, p);
    frame.launch(*of_data, 1);
  }
  const bool bias_with_weight = wants_bias && wants_weight && !transposed;
  if (wants_weight) {
    grad_weight = empty_result(weight.sizes(), input, weight, p.groups);
    if (bias_with_weight) grad_bias = empty_dense({out_channels}, input);
    ConvolutionFrame<4> frame;
    frame.add(grad_weight);
    if (bias_with_weight) frame.add(grad_bias);
    frame.add(grad_output).add(input);
    add_attributes(frame, p);
    frame.launch(*of_weights, bias_with_weight ? 2 : 1);
  }
  if (wants_bias && !bias_with_weight) {
    c10::SmallVector<int64_t, 4> all_but_channels = {0};
    for (int64_t i = 2; i < grad_output.dim(); ++i) all_but_channels.push_back(i);
    grad_bias = at::sum(grad_output, all_but_channels);
  }
  return ConvolutionGradients{grad_input, grad_weight, grad_bias};
}

ConvolutionGradients convolution_backward(const Tensor& grad_output, const Tensor& input, const Tensor& weight,
                                          IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                                          bool transposed, IntArrayRef output_padding, int64_t groups,
                                          std::array<bool, 3> output_mask) {
  const Parameters p{stride, padding, dilation, transposed, output_padding, groups};
  if (auto gradients = try_kernels<at::_ops::convolution_backward>(
          [&] { return try_convolution_backward(grad_output, input, weight, p, output_mask); })) {
    return *std::move(gradients);
  }
  const c10::SymInt bias_size(out_channels_of(weight, p));
  return HostOp<at::_ops::convolution_backward>::call(
      grad_output, input, weight, at::OptionalSymIntArrayRef(c10::SymIntArrayRef(bias_size)),
      c10::fromIntArrayRefSlow(stride), c10::fromIntArrayRefSlow(padding), c10::fromIntArrayRefSlow(dilation),
      transposed, c10::fromIntArrayRefSlow(output_padding), groups, output_mask);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
}

}  // namespace
}  // namespace mydev
