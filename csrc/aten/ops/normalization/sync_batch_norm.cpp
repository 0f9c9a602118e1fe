// The operators of torch.nn.SyncBatchNorm, which PyTorch has for its GPUs only: statistics of a rank's share of the
// batch, their combination over the ranks, and the same in the derivative. Compositions of operators that the device
// has; what is exchanged between them is small. Half precision computes in float32, as on the GPU.
#include <torch/library.h>

#include "aten/launch/native_launch.h"
#include "aten/ops/optional_tensor.h"

namespace mydev {
namespace {

using at::Tensor;

Tensor in_compute_type(const Tensor& tensor) {
  return c10::isReducedFloatingType(tensor.scalar_type()) ? tensor.to(at::kFloat) : tensor;
}

void check_channels(const Tensor& input) {
  TORCH_CHECK(input.dim() >= 2, "synchronized batch norm expects an input of at least 2 dimensions, [N, C, ...], got ",
              input.sizes());
}

// Every dimension but the channels'.
std::vector<int64_t> dims_but_channels(const Tensor& input) {
  check_channels(input);
  std::vector<int64_t> dims;
  for (int64_t dim = 0; dim < input.dim(); ++dim) {
    if (dim != 1) dims.push_back(dim);
  }
  return dims;
}

// One value per channel, to be broadcast against `input`, in the type of `like`.
Tensor along_channels(const Tensor& values, const Tensor& input, const Tensor& like) {
  check_channels(input);
  std::vector<int64_t> shape(static_cast<size_t>(input.dim()), 1);
  shape[1] = values.numel();
  return values.to(like.scalar_type()).view(shape);
}

std::tuple<Tensor, Tensor> local_statistics(const Tensor& input, double eps) {
  auto [variance, mean] = at::var_mean(in_compute_type(input), dims_but_channels(input), /*correction=*/c10::Scalar(0));
  return {mean, variance.add(eps).rsqrt()};
}

// `means` and `invstds` have a row for each rank, `counts` the values per channel there.
std::tuple<Tensor, Tensor> gather_statistics(const Tensor& input, const Tensor& means, const Tensor& invstds,
                                             const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                             double momentum, double eps, const Tensor& counts) {
  TORCH_CHECK(
      means.dim() == 2 && means.sizes() == invstds.sizes() && counts.numel() == means.size(0),
      "batch_norm_gather_stats_with_counts: expected means and inverse deviations of shape [ranks, channels] and "
      "a count for each rank, got ",
      means.sizes(), ", ", invstds.sizes(), " and ", counts.sizes());
  const Tensor weights = counts.to(means.scalar_type()).view({-1, 1});
  const Tensor total = weights.sum();
  Tensor mean = means.mul(weights).sum(0).div_(total);
  const Tensor squares = invstds.pow(-2).sub_(eps).add_(means.sub(mean).square_()).mul_(weights).sum(0);
  if (given(running_mean)) running_mean->mul_(1 - momentum).add_(mean.to(running_mean->scalar_type()), momentum);
  if (given(running_var)) {
    running_var->mul_(1 - momentum).add_(squares.div(total.sub(1)).to(running_var->scalar_type()), momentum);
  }
  return {mean, squares.div(total).add_(eps).rsqrt_()};
}

std::tuple<Tensor, Tensor> gather_statistics_of_count(const Tensor& input, const Tensor& means, const Tensor& invstds,
                                                      const OptionalTensor& running_mean,
                                                      const OptionalTensor& running_var, double momentum, double eps,
                                                      int64_t count) {
  const Tensor counts = at::full({means.size(0)}, count, means.options());
  return gather_statistics(input, means, invstds, running_mean, running_var, momentum, eps, counts);
}

Tensor normalize(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, const Tensor& mean,
                 const Tensor& invstd, double /*eps*/) {
  const Tensor x = in_compute_type(input);
  Tensor out = x.sub(along_channels(mean, input, x)).mul_(along_channels(invstd, input, x));
  if (given(weight)) out.mul_(along_channels(*weight, input, x));
  if (given(bias)) out.add_(along_channels(*bias, input, x));
  return out.to(input.scalar_type());
}

Tensor& normalize_out(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, const Tensor& mean,
                      const Tensor& invstd, double eps, Tensor& out) {
  out.resize_(input.sizes()).copy_(normalize(input, weight, bias, mean, invstd, eps));
  return out;
}

std::tuple<Tensor, Tensor, Tensor, Tensor> reduce_gradient(const Tensor& grad, const Tensor& input, const Tensor& mean,
                                                           const Tensor& invstd, const OptionalTensor& weight,
                                                           bool input_g, bool weight_g, bool bias_g) {
  const Tensor dy = in_compute_type(grad);
  const Tensor centered = in_compute_type(input).sub(along_channels(mean, input, dy));
  const std::vector<int64_t> dims = dims_but_channels(input);
  const Tensor sum_dy = dy.sum(dims);
  const Tensor sum_dy_xmu = centered.mul_(dy).sum(dims);
  const c10::ScalarType dtype = given(weight) ? weight->scalar_type() : input.scalar_type();
  return {input_g ? sum_dy : Tensor(), input_g ? sum_dy_xmu : Tensor(),
          weight_g ? sum_dy_xmu.mul(invstd).to(dtype) : Tensor(), bias_g ? sum_dy.to(dtype) : Tensor()};
}

Tensor input_gradient(const Tensor& grad, const Tensor& input, const Tensor& mean, const Tensor& invstd,
                      const OptionalTensor& weight, const Tensor& sum_dy, const Tensor& sum_dy_xmu,
                      const Tensor& counts) {
  const Tensor dy = in_compute_type(grad);
  const Tensor total = counts.sum().to(sum_dy.scalar_type());
  const Tensor mean_dy = sum_dy.div(total);
  const Tensor slope = sum_dy_xmu.div(total).mul_(invstd).mul_(invstd);
  const Tensor scale = given(weight) ? invstd.mul(weight->to(invstd.scalar_type())) : invstd;
  const Tensor centered = in_compute_type(input).sub(along_channels(mean, input, dy));
  return dy.sub(along_channels(mean_dy, input, dy))
      .sub_(centered.mul_(along_channels(slope, input, dy)))
      .mul_(along_channels(scale, input, dy))
      .to(input.scalar_type());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("batch_norm_stats", &local_statistics);
  m.impl("batch_norm_gather_stats", &gather_statistics_of_count);
  m.impl("batch_norm_gather_stats_with_counts", &gather_statistics);
  m.impl("batch_norm_elemt", &normalize);
  m.impl("batch_norm_elemt.out", &normalize_out);
  m.impl("batch_norm_backward_reduce", &reduce_gradient);
  m.impl("batch_norm_backward_elemt", &input_gradient);
}

}  // namespace
}  // namespace mydev
