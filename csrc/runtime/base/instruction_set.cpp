#include "runtime/base/instruction_set.h"

#include <string>
#include <vector>

#include "runtime/base/config.h"
#include "runtime/base/status.h"

namespace mydev {

namespace {

std::vector<InstructionSet> probe() {
  std::vector<InstructionSet> supported = {InstructionSet::kBaseline};
#ifdef MYDEV_HAVE_AVX2
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
      __builtin_cpu_supports("bmi2")) {
    supported.push_back(InstructionSet::kAvx2);
  }
#endif
#ifdef MYDEV_HAVE_AVX512
  if (supported.back() == InstructionSet::kAvx2 && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    supported.push_back(InstructionSet::kAvx512);
  }
#endif
  return supported;
}

InstructionSet choose() {
  const std::span<const InstructionSet> supported = supported_instruction_sets();
  const std::string wanted = config_string("MYDEV_ISA");
  if (wanted == "auto") return supported.back();
  std::string names;
  for (InstructionSet isa : supported) {
    if (wanted == instruction_set_name(isa)) return isa;
    names += std::string("|") + instruction_set_name(isa);
  }
  raise(MYDEV_INVALID_ARGUMENT,
        "MYDEV_ISA='" + wanted + "' is not valid with this processor and build; it takes auto" + names);
}

}  // namespace

const char* instruction_set_name(InstructionSet isa) noexcept {
  switch (isa) {
    case InstructionSet::kBaseline:
      return "baseline";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kAvx512:
      return "avx512";
  }
  return "unknown";
}

std::span<const InstructionSet> supported_instruction_sets() {
  static const std::vector<InstructionSet> supported = probe();
  return supported;
}

InstructionSet instruction_set() {
  static const InstructionSet chosen = choose();
  return chosen;
}

}  // namespace mydev
