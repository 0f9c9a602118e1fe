// Contracts' expressions, computed by PyTorch's operators: for gradients of kernels that have no gradient kernel.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <vector>

#include "kernels/spec/contract.h"

namespace mydev {

// Returns the results of a contract whose operands have one shape, against which they are broadcast here. Operands of
// half precision are computed in f32. There is one operand, undefined if it is absent, and one attribute for each of
// the contract; an attribute is None if its default is wanted. Raises UNIMPLEMENTED for a function of integers.
// Thread-safe.
std::vector<at::Tensor> compute_expression(const KernelContract& contract, c10::ArrayRef<at::Tensor> operands,
                                           c10::ArrayRef<c10::IValue> attributes);

}  // namespace mydev
