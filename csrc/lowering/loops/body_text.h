// What a body of scalars computes, as text: by which bodies are known that a kernel computes.
#pragma once

#include <string>

#include "stablehlo/ir/module.h"

namespace mydev::lowering {

// Of a result of the region, over its arguments a0, a1, ...: "select(compare_LT(a0,a1),a0,a1)". Comparisons have their
// direction, and _TOTALORDER if that is their type; constants are numbers. "" for what is none of this, or long.
std::string body_text(const stablehlo::Region& region, size_t result);

}  // namespace mydev::lowering
