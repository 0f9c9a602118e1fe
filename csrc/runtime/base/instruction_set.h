// The instruction set that the host's kernels use, chosen at run time. Here, and not beside them: what asks for it need
// not load them.
//
// The best one that the processor and the operating system support, or the one that MYDEV_ISA names. Decided once per
// process; thread-safe.
#pragma once

#include <span>

namespace mydev {

enum class InstructionSet {
  kBaseline,  // what the compiler assumes anyway (SSE2 on x86-64)
  kAvx2,      // AVX2, FMA, F16C, BMI2
  kAvx512,    // kAvx2 and AVX-512 F, BW, DQ, VL
};

const char* instruction_set_name(InstructionSet isa) noexcept;  // "baseline", "avx2", "avx512"

// Those that this build contains and this processor runs, from baseline to best.
std::span<const InstructionSet> supported_instruction_sets();

// The one in use. Raises INVALID_ARGUMENT if MYDEV_ISA names one that is not supported.
InstructionSet instruction_set();

}  // namespace mydev
