// The boxed fallback: any op without a kernel of ours runs PyTorch's CPU kernel, counted in the census.
//
// Policy. Every op that has a CPU kernel and, on other devices, a slower composite is registered by itself, so that the
// CPU kernel wins. So is every op with a kernel for sparse, nested or quantized CPU tensors. The rest comes through the
// backend's `_` fallbacks. Handles Tensor, Tensor?, Tensor[], Tensor?[], Scalar, Generator, Storage and Device
// arguments; in-place and out= operands; outputs that are views or the operand itself. See composition.h and staging.h
// for devices whose memory the host cannot reach.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <utility>

#include "aten/core/device_type.h"
#include "runtime/base/api.h"

namespace mydev {

MYDEV_API void boxed_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
const c10::BoxedKernel& boxed_fallback_kernel();

// An op that the dispatcher knows, kept for good.
const c10::OperatorHandle& immortal_op(const char* name, const char* overload);

// The boxed fallback of one op, called with typed arguments, for tensors of the given key.
template <class Op, class Schema = typename Op::schema>
struct BoxedFallback;
template <class Op, class Result, class... Args>
struct BoxedFallback<Op, Result(Args...)> {
  static Result call(Args... args) { return call_for(kDispatchKey, std::forward<Args>(args)...); }
  static Result call_for(c10::DispatchKey key, Args... args) {
    static const c10::OperatorHandle& op = immortal_op(Op::name, Op::overload_name);
    return c10::impl::BoxedKernelWrapper<Result(Args...)>::call(boxed_fallback_kernel(), op, c10::DispatchKeySet(key),
                                                                std::forward<Args>(args)...);
  }
};

// Registers the typed wrappers of host_ops.cpp.
void register_host_ops(torch::Library& library);

// Registers these wrappers, then the fallback for each op described above that has no kernel for the device yet. Call
// once, after the library's own kernels are registered.
void register_fallbacks();

}  // namespace mydev
