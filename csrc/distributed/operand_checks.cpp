#include "distributed/operand_checks.h"

#include "aten/core/device_type.h"

namespace mydev {

int device_of(const char* collective, at::TensorList tensors) {
  TORCH_CHECK(!tensors.empty(), collective, ": expected at least one tensor");
  const at::Tensor& first = tensors[0];
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK(tensor.defined(), collective, ": an operand is undefined");
    TORCH_CHECK(on_device(tensor), collective, ": expected tensors on ", kDeviceType, ", got one on ", tensor.device());
    if (tensor.device() != first.device()) raise_device_mismatch(collective, first.device(), tensor.device());
    TORCH_CHECK(tensor.layout() == at::kStrided, collective, ": expected a dense tensor, got one of layout ",
                tensor.layout());
  }
  return first.get_device();
}

int device_of(const char* collective, at::TensorList outputs, at::TensorList inputs) {
  const int device = outputs.empty() ? device_of(collective, inputs) : device_of(collective, outputs);
  if (outputs.empty() || inputs.empty()) return device;
  if (device_of(collective, inputs) != device)
    raise_device_mismatch(collective, outputs[0].device(), inputs[0].device());
  for (const at::TensorList tensors : {outputs, inputs}) {
    for (const at::Tensor& tensor : tensors) {
      TORCH_CHECK(tensor.scalar_type() == inputs[0].scalar_type(), collective, ": expected tensors of ",
                  inputs[0].scalar_type(), ", as the first input is, got one of ", tensor.scalar_type());
    }
  }
  return device;
}

const at::Tensor& only_tensor(const char* collective, const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(tensors.size() == 1, collective, ": expected one tensor, got ", tensors.size());
  device_of(collective, tensors);
  return tensors[0];
}

void check_count(const char* collective, const char* what, size_t count, size_t expected) {
  TORCH_CHECK(count == expected, collective, ": expected ", expected, " ", what, ", one for each rank, got ", count);
}

}  // namespace mydev
