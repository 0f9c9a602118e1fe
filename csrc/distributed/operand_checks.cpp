#include "distributed/operand_checks.h"

#include <string>

#include "aten/core/device_type.h"

namespace mydev {

namespace {

std::string name_in(const char* list, size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

int device_of(const char* collective, at::TensorList tensors, const char* list) {
  TORCH_CHECK(!tensors.empty(), collective, ": expected at least one tensor");
  const at::Tensor& first = tensors[0];
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i];
    TORCH_CHECK(tensor.defined(), collective, ": an operand is undefined");
    TORCH_CHECK(on_device(tensor), collective, ": expected tensors on ", kDeviceType, ", got one on ", tensor.device());
    if (tensor.device() != first.device()) {
      raise_device_mismatch(collective, first.device(), name_in(list, i), tensor.device());
    }
    TORCH_CHECK(tensor.layout() == at::kStrided, collective, ": expected a dense tensor, got one of layout ",
                tensor.layout());
  }
  return first.get_device();
}

}  // namespace

int device_of(const char* collective, at::TensorList tensors) {
  return device_of(collective, tensors, "tensors");
}

int device_of(const char* collective, at::TensorList outputs, at::TensorList inputs) {
  const int device =
      outputs.empty() ? device_of(collective, inputs, "inputs") : device_of(collective, outputs, "outputs");
  if (outputs.empty() || inputs.empty()) return device;
  if (device_of(collective, inputs, "inputs") != device) {
    raise_device_mismatch(collective, outputs[0].device(), name_in("inputs", 0), inputs[0].device());
  }
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
