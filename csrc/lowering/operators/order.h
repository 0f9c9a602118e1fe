// Numbers as integers that kernels compare in the same order. Steps of the program that is being built; one thread.
#pragma once

#include "lowering/emitter.h"

namespace mydev::lowering {

// u16, u32 and u64 as the signed type of the same bits, with the highest bit inverted; others as they are.
Tensor in_signed_order(Emitter& emit, const Tensor& tensor);
// The tensor of `dtype` that such integers stand for.
Tensor from_signed_order(Emitter& emit, Tensor tensor, mydev_dtype dtype);

// f16, bf16, f32 and f64 in the order of XLA's TOTALORDER: by sign, -0 before 0, NaN before and behind all numbers.
Tensor in_total_order(Emitter& emit, const program::Operand& floats);

}  // namespace mydev::lowering
