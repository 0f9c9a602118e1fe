// upsample_nearest, _upsample_nearest_exact and the linear interpolations, in one to three dimensions, and their
// gradients.
//
// Results have the memory format of the image, as the CPU's. The step between elements is computed as the CPU computes
// it: from the scale if one is given, else from the sizes.
#include <ATen/Operators.h>
#include <ATen/native/UpSample.h>

#include "aten/host/native_or_host.h"

namespace mydev {
namespace {

using at::Tensor;
using Scale = std::optional<double>;

KernelRef nearest_kernel("mydev.upsample_nearest");
KernelRef nearest_backward_kernel("mydev.upsample_nearest_backward", policy::kUpsampleBackward);
KernelRef linear_kernel("mydev.upsample_linear", policy::kUpsampleLinear);
KernelRef linear_backward_kernel("mydev.upsample_linear_backward", policy::kUpsampleBackward);

template <size_t kAxes>
using Steps = std::array<double, kAxes>;

// Computes the step with the precision that the kernels compute positions in.
double step_of(bool in_double, int64_t in, int64_t out, bool align_corners, Scale scale) {
  return in_double ? at::native::area_pixel_compute_scale<double>(in, out, align_corners, scale)
                   : static_cast<double>(at::native::area_pixel_compute_scale<float>(in, out, align_corners, scale));
}

template <size_t kAxes>
Steps<kAxes> steps_between(const Tensor& image, c10::IntArrayRef in, c10::IntArrayRef out, bool align_corners,
                           const std::array<Scale, kAxes>& scales) {
  Steps<kAxes> steps;
  for (size_t d = 0; d < kAxes; ++d) {
    const size_t from = in.size() - kAxes + d;
    steps[d] = step_of(image.scalar_type() == at::kDouble, in[from], out[from], align_corners, scales[d]);
  }
  return steps;
}

bool is_resizable(const Tensor& image, size_t axes) {
  return on_device(image) && image.dim() == static_cast<int64_t>(2 + axes) && image.numel() > 0 && !image.is_neg();
}

template <size_t kAxes>
Tensor launch_resampling(const Launchable& kernel, const Tensor& image, c10::IntArrayRef sizes,
                         const Steps<kAxes>& steps, const mydev_attribute& flag) {
  Tensor result = empty_in_format(sizes, image.suggest_memory_format(), image.scalar_type(), image.device());
  mydev_attribute step{"step", MYDEV_ATTRIBUTE_FLOAT_ARRAY, 0, kAxes, {}};
  step.value.floats = steps.data();
  OpFrame<2, 2> frame;
  frame.add(result).add(image).attribute(step).attribute(flag);
  frame.launch(kernel, 1);
  return result;
}

bool is_positive(c10::IntArrayRef sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size > 0; });
}

template <size_t kAxes>
std::optional<Tensor> upsample(KernelRef& ref, const Tensor& self, c10::SymIntArrayRef output_size, bool align_corners,
                               const std::array<Scale, kAxes>& scales, const mydev_attribute& flag) {
  const auto wanted = c10::asIntArrayRefSlowOpt(output_size);
  const bool fits = wanted.has_value() && wanted->size() == kAxes && is_positive(*wanted) && is_resizable(self, kAxes);
  const Launchable* kernel = fits ? ref.for_operand(self) : nullptr;
  if (kernel == nullptr) return std::nullopt;
  at::DimVector sizes(self.sizes().slice(0, 2));
  sizes.append(wanted->begin(), wanted->end());
  return launch_resampling(*kernel, self, sizes, steps_between(self, self.sizes(), sizes, align_corners, scales), flag);
}

template <size_t kAxes>
std::optional<Tensor> upsample_backward(KernelRef& ref, const Tensor& grad, c10::SymIntArrayRef output_size,
                                        c10::SymIntArrayRef input_size, bool align_corners,
                                        const std::array<Scale, kAxes>& scales, const mydev_attribute& flag) {
  const auto out = c10::asIntArrayRefSlowOpt(output_size), in = c10::asIntArrayRefSlowOpt(input_size);
  const bool fits = out.has_value() && in.has_value() && out->size() == kAxes && in->size() == 2 + kAxes &&
                    is_positive(*in) && is_resizable(grad, kAxes) && grad.sizes().slice(0, 2) == in->slice(0, 2) &&
                    grad.sizes().slice(2) == *out;
  const Launchable* kernel = fits ? ref.for_operand(grad) : nullptr;
  if (kernel == nullptr) return std::nullopt;
  return launch_resampling(*kernel, grad, *in, steps_between(grad, *in, grad.sizes(), align_corners, scales), flag);
}

// The CPU's nearest element does not depend on the scale of a dimension whose size stays or doubles.
template <bool kExact, size_t kAxes>
std::array<Scale, kAxes> scales_that_matter(std::array<Scale, kAxes> scales, c10::SymIntArrayRef in,
                                            c10::SymIntArrayRef out) {
  if (kExact || in.size() < kAxes || out.size() < kAxes) return scales;
  for (size_t d = 0; d < kAxes; ++d) {
    const c10::SymInt &from = in[in.size() - kAxes + d], &to = out[out.size() - kAxes + d];
    if (to == from || to == 2 * from) scales[d] = std::nullopt;
  }
  return scales;
}

template <bool kExact, class... Scales>
std::optional<Tensor> nearest(const Tensor& self, c10::SymIntArrayRef size, Scales... scales) {
  constexpr size_t kAxes = sizeof...(Scales);
  return upsample<kAxes>(nearest_kernel, self, size, /*align_corners=*/false,
                         scales_that_matter<kExact, kAxes>({scales...}, self.sym_sizes(), size),
                         bool_attribute("exact", kExact));
}
template <bool kExact, class... Scales>
std::optional<Tensor> nearest_backward(const Tensor& grad, c10::SymIntArrayRef output_size,
                                       c10::SymIntArrayRef input_size, Scales... scales) {
  constexpr size_t kAxes = sizeof...(Scales);
  return upsample_backward<kAxes>(nearest_backward_kernel, grad, output_size, input_size, /*align_corners=*/false,
                                  scales_that_matter<kExact, kAxes>({scales...}, input_size, output_size),
                                  bool_attribute("exact", kExact));
}

template <class... Scales>
std::optional<Tensor> linear(const Tensor& self, c10::SymIntArrayRef size, bool align_corners, Scales... scales) {
  return upsample<sizeof...(Scales)>(linear_kernel, self, size, align_corners, {scales...},
                                     bool_attribute("align_corners", align_corners));
}
template <class... Scales>
std::optional<Tensor> linear_backward(const Tensor& grad, c10::SymIntArrayRef output_size,
                                      c10::SymIntArrayRef input_size, bool align_corners, Scales... scales) {
  return upsample_backward<sizeof...(Scales)>(linear_backward_kernel, grad, output_size, input_size, align_corners,
                                              {scales...}, bool_attribute("align_corners", align_corners));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::upsample_nearest1d, &nearest<false, Scale>>(m);
  register_native<at::_ops::upsample_nearest2d, &nearest<false, Scale, Scale>>(m);
  register_native<at::_ops::upsample_nearest3d, &nearest<false, Scale, Scale, Scale>>(m);
  register_native<at::_ops::_upsample_nearest_exact1d, &nearest<true, Scale>>(m);
  register_native<at::_ops::_upsample_nearest_exact2d, &nearest<true, Scale, Scale>>(m);
  register_native<at::_ops::_upsample_nearest_exact3d, &nearest<true, Scale, Scale, Scale>>(m);
  register_native<at::_ops::upsample_nearest1d_backward, &nearest_backward<false, Scale>>(m);
  register_native<at::_ops::upsample_nearest2d_backward, &nearest_backward<false, Scale, Scale>>(m);
  register_native<at::_ops::upsample_nearest3d_backward, &nearest_backward<false, Scale, Scale, Scale>>(m);
  register_native<at::_ops::_upsample_nearest_exact1d_backward, &nearest_backward<true, Scale>>(m);
  register_native<at::_ops::_upsample_nearest_exact2d_backward, &nearest_backward<true, Scale, Scale>>(m);
  register_native<at::_ops::_upsample_nearest_exact3d_backward, &nearest_backward<true, Scale, Scale, Scale>>(m);
  register_native<at::_ops::upsample_linear1d, &linear<Scale>>(m);
  register_native<at::_ops::upsample_bilinear2d, &linear<Scale, Scale>>(m);
  register_native<at::_ops::upsample_trilinear3d, &linear<Scale, Scale, Scale>>(m);
  register_native<at::_ops::upsample_linear1d_backward, &linear_backward<Scale>>(m);
  register_native<at::_ops::upsample_bilinear2d_backward, &linear_backward<Scale, Scale>>(m);
  register_native<at::_ops::upsample_trilinear3d_backward, &linear_backward<Scale, Scale, Scale>>(m);
}

}  // namespace
}  // namespace mydev
