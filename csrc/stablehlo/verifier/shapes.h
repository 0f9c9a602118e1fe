// What verify() asks of one operation about dimensions, sizes and elements. Operands, results and attributes are those
// of the operator's row already, and its regions have been verified.
#pragma once

#include "stablehlo/ir/operation.h"

namespace mydev::stablehlo {

void verify_shapes(const Operation& op);

}  // namespace mydev::stablehlo
