// Gathers the records of the families that builtin_kernels.h lists.
#include "host_kernels/builtin_kernels.h"

namespace mydev::kernels {

namespace {

using Records = std::vector<const mydev_kernel*>;

[[maybe_unused]] void append(Records& records, std::span<const mydev_kernel> family) {
  for (const mydev_kernel& kernel : family) records.push_back(&kernel);
}

void append_isa_families([[maybe_unused]] Records& records, InstructionSet isa) {
  switch (isa) {
#define MYDEV_APPEND_AVX512(family) append(records, avx512::family());
#define MYDEV_APPEND_AVX2(family) append(records, avx2::family());
#define MYDEV_APPEND_BASELINE(family) append(records, baseline::family());
    case InstructionSet::kAvx512:
#ifdef MYDEV_HAVE_AVX512
      MYDEV_ISA_FAMILIES(MYDEV_APPEND_AVX512)
#endif
      break;
    case InstructionSet::kAvx2:
#ifdef MYDEV_HAVE_AVX2
      MYDEV_ISA_FAMILIES(MYDEV_APPEND_AVX2)
#endif
      break;
    case InstructionSet::kBaseline:
      MYDEV_ISA_FAMILIES(MYDEV_APPEND_BASELINE)
      break;
#undef MYDEV_APPEND_AVX512
#undef MYDEV_APPEND_AVX2
#undef MYDEV_APPEND_BASELINE
  }
}

}  // namespace

Records builtin_kernels(InstructionSet isa) {
  Records records;
  append_isa_families(records, isa);
#define MYDEV_APPEND_PLAIN(family) append(records, family());
  MYDEV_PLAIN_FAMILIES(MYDEV_APPEND_PLAIN)
#undef MYDEV_APPEND_PLAIN
  return records;
}

}  // namespace mydev::kernels
