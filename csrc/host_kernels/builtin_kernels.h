// The built-in kernel families. A family is one file that gives its records and documents their frames at its top and
// in each record's `doc`.
//
// A family under MYDEV_ISA_FAMILIES lives in csrc/host_kernels/isa/<family>.cpp, is compiled once per instruction set,
// and defines `std::span<const mydev_kernel> <family>()` in namespace mydev::kernels::MYDEV_ISA (a macro that CMake
// sets to baseline, avx2 or avx512). One under MYDEV_PLAIN_FAMILIES lives in csrc/kernels/<family>.cpp, is compiled
// once, and defines that function in namespace mydev::kernels. The records must live as long as the process.
//
// To add a family: write the file and put its name into one of the two lists. Nothing else.
#pragma once

#include <span>
#include <vector>

#include "host_kernels/instruction_set.h"
#include "mydev/custom_call.h"

#define MYDEV_ISA_FAMILIES(FAMILY) \
  FAMILY(activation)               \
  FAMILY(arg_reduction)            \
  FAMILY(batch_norm)               \
  FAMILY(binary)                   \
  FAMILY(comparison)               \
  FAMILY(concatenate)              \
  FAMILY(copy)                     \
  FAMILY(fill)                     \
  FAMILY(foreach)                  \
  FAMILY(index)                    \
  FAMILY(layer_norm)               \
  FAMILY(loss)                     \
  FAMILY(optimizer)                \
  FAMILY(random)                   \
  FAMILY(range)                    \
  FAMILY(reduction)                \
  FAMILY(rms_norm)                 \
  FAMILY(softmax)                  \
  FAMILY(swiglu)                   \
  FAMILY(ternary)                  \
  FAMILY(unary)                    \
  FAMILY(variance)

#define MYDEV_PLAIN_FAMILIES(FAMILY) FAMILY(convolution) FAMILY(matmul) FAMILY(pooling)

namespace mydev::kernels {

#define MYDEV_DECLARE_FAMILY(family) std::span<const mydev_kernel> family();
namespace baseline {
MYDEV_ISA_FAMILIES(MYDEV_DECLARE_FAMILY)
}
namespace avx2 {
MYDEV_ISA_FAMILIES(MYDEV_DECLARE_FAMILY)
}
namespace avx512 {
MYDEV_ISA_FAMILIES(MYDEV_DECLARE_FAMILY)
}
MYDEV_PLAIN_FAMILIES(MYDEV_DECLARE_FAMILY)
#undef MYDEV_DECLARE_FAMILY

// Every built-in record in its variant for `isa`, which must be one of supported_instruction_sets().
std::vector<const mydev_kernel*> builtin_kernels(InstructionSet isa);

}  // namespace mydev::kernels
