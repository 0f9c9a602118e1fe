// Operators that PyTorch composes of others: what runs instead of a fallback by copies.
//
// Where the host reaches a device's memory, an operator without a kernel of the device runs the CPU's kernel on that
// memory, which is faster than several operators. Where it does not, the CPU's kernel would be given copies; core's own
// composition of other operators is run instead, if the operator is a list operator, _foreach_..., which core does
// tensor by tensor, or one of those named in composition.cpp. Named are operators of whose parts the device has each,
// and whose composition gives what the CPU's kernel gives, strides and errors included.
//
// A composition calls other operators only, so none calls itself; a part that the device's kernels decline falls back
// by itself. Compositions are counted in the census, apart from fallbacks, and allowed in every mode.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

#include "aten/core/device_type.h"
#include "runtime/driver/device.h"

namespace mydev {

// A backend that nothing is registered for: an operator that is redispatched to it runs core's composition.
inline constexpr c10::DispatchKeySet kCompositionKeys{c10::DispatchKey::PrivateUse3};

// The full names of the operators that are composed.
std::vector<std::string> composed_operators();

// Whether the tensor lies where the host does not reach it.
inline bool is_out_of_reach(const at::Tensor& tensor) {
  return on_device(tensor) && !device(tensor.device().index()).host_accessible();
}

// Runs the op's composition, if an operand is out of the host's reach; false if none is, and then nothing was done.
bool run_composition(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace mydev
