// The device type, its tensors, and the check that operands share a device.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "runtime/base/api.h"

namespace mydev {

inline constexpr c10::DeviceType kDeviceType = c10::DeviceType::PrivateUse1;
inline constexpr c10::DispatchKey kDispatchKey = c10::DispatchKey::PrivateUse1;

// torch.device of a device by its index.
inline c10::Device torch_device(int index) {
  return {kDeviceType, static_cast<c10::DeviceIndex>(index)};
}

inline bool on_device(const at::TensorBase& tensor) {
  return tensor.defined() && tensor.is_privateuseone();
}

// Raises the error that PyTorch raises for operands on two devices, with the op's name, and that of the operand which
// is on another device than the op's.
[[noreturn]] MYDEV_API void raise_device_mismatch(std::string_view op, c10::Device expected, std::string_view operand,
                                                  c10::Device found);

// Returns the name that messages give to an argument of an op: its name in the schema, or its number if the schema is
// not known. `op` is the full name, such as "aten::add.Tensor".
std::string argument_name(const std::string& op, size_t argument);

// Raises the device mismatch error unless every defined tensor is on one device of ours or is a CPU scalar (0-dim). The
// tensors are the op's leading operands; the op's name may lack "aten::".
void check_same_device(std::string_view op, std::initializer_list<std::reference_wrapper<const at::Tensor>> tensors);

}  // namespace mydev
