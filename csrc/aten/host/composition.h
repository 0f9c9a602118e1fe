// Operators that PyTorch composes of others: the composition runs instead of a fallback.
//
// Core runs a list operator, _foreach_..., tensor by tensor, on the CPU too. So if the device has no kernel for the
// lists, core's composition runs. Other operators without a kernel of the device run the CPU's kernel on the device's
// memory if the host reaches it, which is faster than several operators. If it does not, the CPU's kernel would be
// given copies; the operators that composition.cpp names are composed instead. The device has every part of these, and
// their composition gives what the CPU's kernel gives, strides and errors included.
//
// A composition calls other operators only, so none calls itself; a part that the device's kernels decline falls back
// by itself. Compositions are counted in the census, apart from fallbacks, and allowed in every mode.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "aten/core/device_type.h"
#include "runtime/driver/device.h"

namespace mydev {

// A backend that nothing is registered for: an operator that is redispatched to it runs core's composition.
inline constexpr c10::DispatchKeySet kCompositionKeys{c10::DispatchKey::PrivateUse3};

// Whether the operator is composed where the device has no kernel of it.
bool is_composed(const c10::OperatorHandle& op);

// Whether the tensor lies where the host does not reach it.
inline bool is_out_of_reach(const at::Tensor& tensor) {
  return on_device(tensor) && !device(tensor.device().index()).host_accessible();
}

// Runs the op's composition, unless the CPU's kernel is to run on memory that the host reaches. It then returns false,
// and nothing was done.
bool run_composition(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace mydev
