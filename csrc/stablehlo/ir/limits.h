// What a program may have at most: limits that programs do not reach, so that nothing recurses without end.
#pragma once

namespace mydev::stablehlo {

// Nesting of regions, types, attributes and lists. Programs have some ten; readers recurse so deep.
inline constexpr int kMostNesting = 100;

}  // namespace mydev::stablehlo
