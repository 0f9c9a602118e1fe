// histc of integers, which the CPU does not have and CUDA does: composed of the device's own operators, with nothing
// brought to the host unless the range is to be found. Mixtures of experts count the tokens of each expert by it.
// Floats run the CPU's kernel, and so do arguments that it refuses.
#include <ATen/Operators.h>

#include "aten/host/native_or_host.h"

namespace mydev {
namespace {

using at::Tensor;

std::optional<Tensor> histc(const Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max) {
  if (!on_device(self) || !at::isIntegralType(self.scalar_type(), /*includeBool=*/false) || bins <= 0) {
    return std::nullopt;
  }
  const Tensor values = self.reshape({-1}).to(at::kLong);
  auto low = min.to<int64_t>(), high = max.to<int64_t>();
  if (low == high && values.numel() > 0) {
    const auto [least, greatest] = at::aminmax(values);
    low = least.item<int64_t>();
    high = greatest.item<int64_t>();
  }
  if (low == high) {
    low -= 1;
    high += 1;
  }
  TORCH_CHECK(low < high, "torch.histc: max must be larger than min, but min is ", low, " and max is ", high);
  int64_t width = 0, product = 0;
  TORCH_CHECK(!__builtin_sub_overflow(high, low, &width) && !__builtin_mul_overflow(width, bins, &product),
              "torch.histc: the range of ", low, " to ", high, " in ", bins, " bins is beyond 64-bit integers");
  const Tensor outside = (values < low).logical_or_(values > high);
  const Tensor places =
      values.sub(low).mul_(bins).div_(width, "trunc").clamp_max_(bins - 1).masked_fill_(outside, bins);
  const Tensor ones = at::ones({1}, self.options()).expand({values.numel()});
  return at::zeros({bins + 1}, self.options()).scatter_add_(0, places, ones).narrow(0, 0, bins).clone();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::histc, &histc>(m);
}

}  // namespace
}  // namespace mydev
