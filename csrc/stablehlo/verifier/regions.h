// Checks an operation's regions, for verify(): they must take and return the values that the operator gives and
// expects. Each region has one block, which has been verified.
#pragma once

#include "stablehlo/ir/operation.h"

namespace mydev::stablehlo {

void verify_regions(const Operation& op);

}  // namespace mydev::stablehlo
