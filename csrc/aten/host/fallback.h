// The boxed fallback: any op without a kernel of ours runs PyTorch's CPU kernel, counted in the census.
//
// Policy. Every op that has a CPU kernel and, on other devices, a slower composite is registered by itself, so that the
// CPU kernel wins, and so is every op with a kernel for sparse CPU tensors; the rest comes through the backend's `_`
// fallback. Handles Tensor, Tensor?, Tensor[], Tensor?[],
// Scalar, Generator, Storage and Device arguments; in-place and out= operands; outputs that are views or the operand
// itself. See host_call.h for devices whose memory the host cannot reach.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace mydev {

void boxed_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// Registers the typed wrappers of host_ops.cpp, for ops that have no kernel for the device yet.
void register_host_ops(torch::Library& library);

// Registers those, then the fallback for each op described above that has no kernel for the device yet. Call once,
// after the library's own kernels are registered.
void register_fallbacks();

}  // namespace mydev
