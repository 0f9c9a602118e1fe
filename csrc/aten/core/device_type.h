// The device type: its tensors, and what is asked of operands that must share a device.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <initializer_list>
#include <string_view>

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

// Raises the error that PyTorch raises for operands on two devices, with the op's name.
[[noreturn]] void raise_device_mismatch(std::string_view op, c10::Device first, c10::Device second);

// Raises that error unless every defined tensor is on one device of ours or is a CPU scalar (0-dim).
void check_same_device(const char* op, std::initializer_list<std::reference_wrapper<const at::Tensor>> tensors);

}  // namespace mydev
