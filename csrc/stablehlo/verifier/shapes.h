// Checks one operation's dimensions, sizes and elements, for verify(). Its operands, results and attributes already
// agree with the operator's row, and its regions have been verified.
#pragma once

#include "stablehlo/ir/operation.h"

namespace mydev::stablehlo {

void verify_shapes(const Operation& op);

}  // namespace mydev::stablehlo
