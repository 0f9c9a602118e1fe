// What verify() asks of operators that take sizes as operands: dynamic_reshape and its kind, real_dynamic_slice,
// set_dimension_size. That there is an integer for each dimension, and results are of the operands' elements.
#pragma once

#include "stablehlo/ir/operation.h"

namespace mydev::stablehlo {

// Of other operators nothing is asked.
void verify_shape_operands(const Operation& op);

}  // namespace mydev::stablehlo
