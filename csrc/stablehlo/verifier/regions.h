// What verify() asks of an operation's regions: that they take and return what the operator gives and expects. Each has
// one block, which has been verified.
#pragma once

#include "stablehlo/ir/operation.h"

namespace mydev::stablehlo {

void verify_regions(const Operation& op);

}  // namespace mydev::stablehlo
