#include "distributed/host_operands.h"

#include <ATen/ATen.h>

#include "aten/alias.h"

namespace mydev {

at::Tensor HostOperands::read(const at::Tensor& tensor) {
  return stand_in(tensor, /*with_values=*/true, /*written=*/false);
}

at::Tensor HostOperands::update(const at::Tensor& tensor) {
  return stand_in(tensor, /*with_values=*/true, /*written=*/true);
}

at::Tensor HostOperands::write(const at::Tensor& tensor) {
  return stand_in(tensor, /*with_values=*/false, /*written=*/true);
}

at::Tensor HostOperands::stand_in(const at::Tensor& tensor, bool with_values, bool written) {
  const bool dense = tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
  at::Tensor origin = tensor;
  at::TensorOptions options = tensor.options().device(c10::kCPU).layout(c10::kStrided);
  if (device_->host_accessible()) {
    origin = host_alias(tensor);
    if (dense) return origin;
  } else {
    options = options.pinned_memory(true);
  }
  at::Tensor copy = at::empty(tensor.sizes(), options);
  if (with_values) copy.copy_(origin);
  if (written) written_.emplace_back(std::move(origin), copy);
  return copy;
}

void HostOperands::end() {
  for (const auto& step : steps_) step();
  for (auto& [destination, copy] : written_) destination.copy_(copy);
  steps_.clear();
  written_.clear();
}

}  // namespace mydev
