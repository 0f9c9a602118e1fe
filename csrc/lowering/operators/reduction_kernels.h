// Kernels of a reduction whose body is one operator. Constants; any thread.
#pragma once

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

// For an element type, whose unsigned ones of 16 bits and more are computed as signed_dtype; nullptr: there are none.
const ReductionKernels* reduction_kernels(stablehlo::Operator op, stablehlo::ElementType type) noexcept;

// Whether reducing with that initial value is as if there were none.
bool is_neutral(stablehlo::Operator op, stablehlo::ElementType type, const mydev_scalar& value) noexcept;

}  // namespace mydev::lowering
