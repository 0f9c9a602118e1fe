// Whether a program that asks for memory without contents is given it with contents: under
// torch.use_deterministic_algorithms, as on the CPU, where torch.utils.deterministic does not say otherwise. What
// kernels make for their own results stays as it is, since they write all of it.
#pragma once

#include <ATen/Context.h>

namespace mydev {

inline bool fills_uninitialized_memory() {
  const at::Context& context = at::globalContext();
  return context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory();
}

}  // namespace mydev
