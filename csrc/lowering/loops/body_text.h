// The computation of a body of scalars as text. It serves to recognize bodies that a kernel computes.
#pragma once

#include <string>

#include "stablehlo/ir/module.h"

namespace mydev::lowering {

// The text of a result of the region, over its arguments a0, a1, ...: "select(compare_LT(a0,a1),a0,a1)". Comparisons
// have their direction, and _TOTALORDER if that is their type; constants are numbers. "" if the body has other
// operations, or if the text is long.
std::string body_text(const stablehlo::Region& region, size_t result);
// The text of a value of the region.
std::string body_text(const stablehlo::Region& region, const stablehlo::Value& value);

}  // namespace mydev::lowering
