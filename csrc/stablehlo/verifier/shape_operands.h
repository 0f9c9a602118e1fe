// Checks operators that take sizes as operands, for verify(): dynamic_reshape and its kind, real_dynamic_slice,
// set_dimension_size. There must be an integer for each dimension, and results must have the operands' elements.
#pragma once

#include "stablehlo/ir/operation.h"

namespace mydev::stablehlo {

// Does nothing for other operators.
void verify_shape_operands(const Operation& op);

}  // namespace mydev::stablehlo
