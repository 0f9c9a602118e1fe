// Whether memory that a program asks for without contents is filled. It is filled under
// torch.use_deterministic_algorithms, as on the CPU, unless torch.utils.deterministic says otherwise. Memory that
// kernels make for their own results stays as it is, since they write all of it.
#pragma once

#include <ATen/Context.h>

namespace mydev {

inline bool fills_uninitialized_memory() {
  const at::Context& context = at::globalContext();
  return context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory();
}

}  // namespace mydev
