// Choosing among the variants of a symbol of csrc/host_kernels/isa. There is one per instruction set of this build.
#pragma once

#include "built_instruction_sets.h"
#include "runtime/base/instruction_set.h"

// In namespace mydev::kernels: the symbol's variant for `isa`, one of supported_instruction_sets(). Variants that this
// build does not contain are not named.
#if MYDEV_HAVE_AVX512
#define MYDEV_AVX512_VARIANT(symbol) avx512::symbol
#else
#define MYDEV_AVX512_VARIANT(symbol) MYDEV_ANY_ISA::symbol
#endif
#if MYDEV_HAVE_AVX2
#define MYDEV_AVX2_VARIANT(symbol) avx2::symbol
#else
#define MYDEV_AVX2_VARIANT(symbol) MYDEV_ANY_ISA::symbol
#endif
#if MYDEV_HAVE_BASELINE
#define MYDEV_BASELINE_VARIANT(symbol) baseline::symbol
#else
#define MYDEV_BASELINE_VARIANT(symbol) MYDEV_ANY_ISA::symbol
#endif
#define MYDEV_ISA_VARIANT(isa, symbol)                                      \
  ((isa) == ::mydev::InstructionSet::kAvx512 ? MYDEV_AVX512_VARIANT(symbol) \
   : (isa) == ::mydev::InstructionSet::kAvx2 ? MYDEV_AVX2_VARIANT(symbol)   \
                                             : MYDEV_BASELINE_VARIANT(symbol))
