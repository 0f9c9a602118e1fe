#include "aten/core/device_type.h"

#include <c10/util/Exception.h>

namespace mydev {

void raise_device_mismatch(std::string_view op, c10::Device first, c10::Device second) {
  TORCH_CHECK(false, op, ": expected all tensors to be on the same device, but found at least two devices, ", first,
              " and ", second, "; move one of them with .to()");
}

void check_same_device(const char* op, std::initializer_list<std::reference_wrapper<const at::Tensor>> tensors) {
  const at::Tensor* first = nullptr;
  for (const at::Tensor& tensor : tensors) {
    if (!on_device(tensor)) continue;
    if (first == nullptr) first = &tensor;
    if (tensor.device() != first->device()) raise_device_mismatch(op, first->device(), tensor.device());
  }
  if (first == nullptr) return;
  for (const at::Tensor& tensor : tensors) {
    const bool cpu_scalar = tensor.defined() && tensor.is_cpu() && tensor.dim() == 0;
    if (tensor.defined() && !on_device(tensor) && !cpu_scalar) {
      raise_device_mismatch(op, first->device(), tensor.device());
    }
  }
}

}  // namespace mydev
