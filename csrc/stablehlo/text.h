// Programs as text: StableHLO's, in the generic form of MLIR, with the short one of what is simple.
//
//   module @jit_f {
//     func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
//       %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>
//       return %0 : tensor<4xf32>
//     }
//   }
//
// What is printed is what other tools of StableHLO parse. Large constants are printed as hexadecimal bytes; locations
// are left out, and so are attributes that are not known here (attribute.h).
#pragma once

#include <string>

#include "stablehlo/module.h"

namespace mydev::stablehlo {

std::string print(const Module& module);
std::string print(const Attribute& attribute);

}  // namespace mydev::stablehlo
