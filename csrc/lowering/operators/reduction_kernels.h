// Kernels of a reduction whose body is one operator, and how they take its tensors. One thread.
#pragma once

#include "lowering/emitter.h"
#include "mydev/custom_call.h"
#include "stablehlo/ir/element_type.h"
#include "stablehlo/ir/operator.h"

namespace mydev::lowering {

struct ReductionKernels {
  stablehlo::Operator op;
  const char* reduction;   // over dimensions
  const char* cumulative;  // of the elements up to each; nullptr: none
  const char* binary;      // of two elements
};

// For an element type, whose tensors kernels take as as_reduced() gives them; nullptr: there are none.
const ReductionKernels* reduction_kernels(stablehlo::Operator op, stablehlo::ElementType type) noexcept;

// The tensor as kernels reduce it: unsigned numbers as signed ones, which add up to the same bits or, where they are
// compared, have the same order; complex ones by their parts, along one dimension more.
Tensor as_reduced(Emitter& emit, stablehlo::Operator op, const Tensor& tensor);
// The tensor of `dtype` that such a result stands for.
Tensor from_reduced(Emitter& emit, stablehlo::Operator op, const Tensor& tensor, mydev_dtype dtype);

// Whether reducing with that initial value is as if there were none.
bool is_neutral(stablehlo::Operator op, stablehlo::ElementType type, const mydev_scalar& value) noexcept;

}  // namespace mydev::lowering
