// Programs as text: StableHLO's.
//
//   module @jit_f {
//     func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
//       %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>
//       return %0 : tensor<4xf32>
//     }
//   }
//
// Printing uses the generic form of MLIR, and the short form for simple operations. Other tools of StableHLO parse what
// is printed. Large constants are printed as hexadecimal bytes. Locations are left out, and so are attributes that are
// not known here (ir/attribute.h).
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/api.h"
#include "stablehlo/ir/module.h"

namespace mydev::stablehlo {

// May raise INVALID_ARGUMENT for a program that verify() refuses.
MYDEV_API std::string print(const Module& module);
MYDEV_API std::string print(const Attribute& attribute);

// Reads what print() gives, and the short forms of operators, but not Shardy's meshes and operators, nor locations.
// Floats of eight bits and fewer are written as their bits. Raises INVALID_ARGUMENT with line and column. The program
// is well formed, as that of read_bytecode(); attributes that the text leaves out have their defaults.
MYDEV_API Module read_text(std::string_view text);

}  // namespace mydev::stablehlo
