// The device type: its tensors, and what is asked of operands that must share a device.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <initializer_list>
#include <string>
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

// Raises the error that PyTorch raises for operands on two devices, with the op's name, and that of the operand which
// is on another device than the op's.
[[noreturn]] void raise_device_mismatch(std::string_view op, c10::Device expected, std::string_view operand,
                                        c10::Device found);

// What messages call an argument of an op by its full name, such as "aten::add.Tensor": its name in the schema.
std::string argument_name(const std::string& op, size_t argument);

// Raises that error unless every defined tensor is on one device of ours or is a CPU scalar (0-dim). They are the op's
// leading operands; its name may lack "aten::".
void check_same_device(std::string_view op, std::initializer_list<std::reference_wrapper<const at::Tensor>> tensors);

}  // namespace mydev
