// The instruction set that the host's kernels use, chosen at run time. It is here and not beside the kernels, so that
// code can ask for it without loading them.
//
// The best one that the processor and the operating system support, or the one that MYDEV_ISA names. Decided once per
// process; thread-safe.
#pragma once

#include <span>
#include <string_view>

#include "runtime/base/api.h"

namespace mydev {

enum class InstructionSet {
  kBaseline,  // what the compiler assumes anyway (SSE2 on x86-64)
  kAvx2,      // AVX2, FMA, F16C, BMI2
  kAvx512,    // kAvx2 and AVX-512 F, BW, DQ, VL
};

MYDEV_API const char* instruction_set_name(InstructionSet isa) noexcept;  // "baseline", "avx2", "avx512"

// Returns the instruction sets that this build contains and this processor runs, from baseline to best.
MYDEV_API std::span<const InstructionSet> supported_instruction_sets();

// The best one that is built and that the processor has, or the one that `wanted` names, unless it is "auto". Both
// lists go from baseline to best. Raises FAILED_PRECONDITION if they share none, INVALID_ARGUMENT if they do not share
// `wanted`.
MYDEV_API InstructionSet choose_instruction_set(std::string_view wanted, std::span<const InstructionSet> built,
                                                std::span<const InstructionSet> processor);

// The one in use, by MYDEV_ISA. Raises as choose_instruction_set.
MYDEV_API InstructionSet instruction_set();

}  // namespace mydev
