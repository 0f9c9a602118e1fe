// Conversions between element types, one dense run at a time.
//
// Every conversion goes through native types: those that C++ computes with. f16, bf16, f8 and c64 load to f32, c128 to
// f64 (complex to real keeps the real part). So a conversion between any two types is at most three steps: load, cast,
// store. Semantics are those of PyTorch on the CPU: float to integer truncates, to PRED tests for non-zero.
// Any byte but 0 of PRED is true; converted, also to PRED itself, it is 1.
#pragma once

#include "host_kernels/isa/isa.h"

namespace mydev::kernels::MYDEV_ISA {

// n elements; dst and src do not overlap.
using Convert = void (*)(void* dst, const void* src, int64_t n);

struct Conversion {
  static constexpr int kMaxSteps = 3;
  Convert steps[kMaxSteps];
  int64_t sizes[kMaxSteps];  // bytes of an element after each step
  int count;                 // 0: nothing to do; -1: no such conversion
};

Conversion find_conversion(mydev_dtype from, mydev_dtype to);

}  // namespace mydev::kernels::MYDEV_ISA
