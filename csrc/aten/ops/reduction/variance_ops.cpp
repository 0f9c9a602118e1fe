// var, std, var_mean and std_mean.
#include "aten/ops/reduction/reduction.h"

namespace mydev {
namespace {

using at::Tensor;

namespace ops = at::_ops;

KernelRef variance_kernel("mydev.variance");

// The mean stays undefined unless it is wanted. take_root: the standard deviation in place of the variance.
std::optional<std::tuple<Tensor, Tensor>> compute(const Tensor& self, const ReductionRequest& request, bool take_root,
                                                  bool with_mean) {
  const Launchable* kernel = variance_kernel.for_operand(self);
  const at::ScalarType dtype = self.scalar_type();
  if (kernel == nullptr || !is_reducible(self)) return std::nullopt;
  if (request.scalar.has_value() && request.scalar->isComplex()) return std::nullopt;
  const double correction = request.scalar.has_value() ? request.scalar->toDouble() : 1;
  const ReducedShape shape(self, request);
  const int64_t outputs = c10::multiply_integers(shape.sizes);
  // The CPU warns where there are too few elements.
  if (outputs == 0 || static_cast<double>(self.numel() / outputs) <= correction) return std::nullopt;
  const Tensor* given_out = request.out[0];
  if (given_out != nullptr && !writable_as(*given_out, dtype, self)) return std::nullopt;
  const ReducedOutput variance(given_out, dtype, self, shape);
  const ReducedOutput mean(with_mean ? empty_dense(shape.sizes, dtype, self.device()) : Tensor(), self, shape);
  launch_on(*kernel, self, 2, {variance.buffer(self), mean.buffer(self), input_buffer_of(self)},
            {float_attribute("correction", correction), bool_attribute("take_root", take_root)});
  return std::tuple(variance.tensor(), mean.tensor());
}

template <bool take_root>
std::optional<Tensor> variance(const Tensor& self, const ReductionRequest& request) {
  auto results = compute(self, request, take_root, /*with_mean=*/false);
  return results.has_value() ? std::optional(std::get<0>(*std::move(results))) : std::nullopt;
}

template <bool take_root>
std::optional<std::tuple<Tensor, Tensor>> variance_and_mean(const Tensor& self, const ReductionRequest& request) {
  return compute(self, request, take_root, /*with_mean=*/true);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_reduction<&variance<false>, ops::var_correction, ops::var_correction_out>(m);
  register_reduction<&variance<true>, ops::std_correction, ops::std_correction_out>(m);
  register_reduction<&variance_and_mean<false>, ops::var_mean_correction>(m);
  register_reduction<&variance_and_mean<true>, ops::std_mean_correction>(m);
}

}  // namespace
}  // namespace mydev
