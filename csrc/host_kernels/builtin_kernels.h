// The groups of built-in kernels. A kernel group is one file that gives its records. Their contracts,
// csrc/kernels/spec/builtin_contracts.h, say what kernels take; the comment at a file's top tells how it computes.
//
// A group under MYDEV_KERNEL_GROUPS_PER_ISA lies in csrc/host_kernels/isa/<group>.cpp, is compiled once per instruction
// set, and defines `std::span<const mydev_kernel> <group>()` in namespace mydev::kernels::MYDEV_ISA (a macro that CMake
// sets to baseline, avx2 or avx512). One under MYDEV_KERNEL_GROUPS_COMPILED_ONCE lies in csrc/host_kernels or in its
// folder fft/ or onednn/, and defines that function in namespace mydev::kernels. The records must live as long as the
// process.
//
// To add a group: write the file and put its name into one of the two lists. Nothing else.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "host_kernels/isa_declaration.h"
#include "mydev/custom_call.h"
#include "runtime/base/api.h"
#include "runtime/base/instruction_set.h"

#define MYDEV_KERNEL_GROUPS_PER_ISA(GROUP) \
  GROUP(activation)                        \
  GROUP(arg_reduction)                     \
  GROUP(batch_norm)                        \
  GROUP(binary)                            \
  GROUP(comparison)                        \
  GROUP(concatenate)                       \
  GROUP(copy)                              \
  GROUP(cumulative)                        \
  GROUP(fill)                              \
  GROUP(foreach)                           \
  GROUP(group_norm)                        \
  GROUP(index)                             \
  GROUP(index_write)                       \
  GROUP(layer_norm)                        \
  GROUP(loss)                              \
  GROUP(membership)                        \
  GROUP(optimizer)                         \
  GROUP(position)                          \
  GROUP(random)                            \
  GROUP(random_bits)                       \
  GROUP(range)                             \
  GROUP(reduction)                         \
  GROUP(rms_norm)                          \
  GROUP(scatter_elements)                  \
  GROUP(slices)                            \
  GROUP(softmax)                           \
  GROUP(sort)                              \
  GROUP(swiglu)                            \
  GROUP(ternary)                           \
  GROUP(triangle)                          \
  GROUP(unary)                             \
  GROUP(upsample)                          \
  GROUP(variance)

#define MYDEV_KERNEL_GROUPS_COMPILED_ONCE(GROUP) \
  GROUP(attention) GROUP(convolution) GROUP(fft) GROUP(fused) GROUP(matmul) GROUP(pooling)

namespace mydev::kernels {

#define MYDEV_DECLARE_GROUP(group) std::span<const mydev_kernel> group();
MYDEV_DECLARE_VARIANTS(MYDEV_KERNEL_GROUPS_PER_ISA(MYDEV_DECLARE_GROUP))
MYDEV_KERNEL_GROUPS_COMPILED_ONCE(MYDEV_DECLARE_GROUP)
#undef MYDEV_DECLARE_GROUP

// Every built-in record in its variant for `isa`, which must be one of supported_instruction_sets().
MYDEV_API std::vector<const mydev_kernel*> builtin_kernels(InstructionSet isa);
// Returns the built-in record of that name, in its variant for `isa`. Raises NOT_FOUND.
MYDEV_API const mydev_kernel& builtin_kernel(std::string_view name, InstructionSet isa);

}  // namespace mydev::kernels
