// The limits of a program. Programs do not reach them; they are there so that nothing recurses without end.
#pragma once

namespace mydev::stablehlo {

// The most nesting of regions, types, attributes and lists. Programs have some ten levels; readers recurse so deep.
inline constexpr int kMostNesting = 100;

}  // namespace mydev::stablehlo
