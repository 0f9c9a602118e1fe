// Checks that a program makes sense, so that a lowering need not ask.
//
// Raises INVALID_ARGUMENT with the function, the operation and its location. After it, of each function:
//   - values are used within the scope and after the definition; blocks end with a return, and it nowhere else;
//   - operands, results, regions and attributes are those of the operator's row, attributes of the kind that it says;
//   - types agree as the operator's traits say, regions take and return what the operator gives and expects;
//   - called functions are there, with these types, and none calls itself, directly or not;
//   - operands that say sizes have a number for each dimension (shape_operands.h);
//   - dimensions that attributes name are dimensions of the operands, each once where once is meant;
//   - the types of results follow from operands and attributes (rules.h), where the operator is one that is lowered.
// The lowering checks what depends on the number of devices. Operators of Shardy are checked only against their rows.
#pragma once

#include "runtime/base/api.h"
#include "stablehlo/ir/module.h"

namespace mydev::stablehlo {

MYDEV_API void verify(const Module& module);

}  // namespace mydev::stablehlo
