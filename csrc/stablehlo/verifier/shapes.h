// What verify() asks of one operation about dimensions and sizes. Operands, results and attributes are those of the
// operator's row already.
#pragma once

#include "stablehlo/ir/operation.h"

namespace mydev::stablehlo {

void verify_shapes(const Operation& op);

}  // namespace mydev::stablehlo
