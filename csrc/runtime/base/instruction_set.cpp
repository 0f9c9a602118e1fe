#include "runtime/base/instruction_set.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <vector>

#include "built_instruction_sets.h"
#include "runtime/base/config.h"
#include "runtime/base/status.h"

namespace mydev {

namespace {

constexpr std::array kAll = {InstructionSet::kBaseline, InstructionSet::kAvx2, InstructionSet::kAvx512};

bool processor_has(InstructionSet isa) {
#if defined(__x86_64__)
  switch (isa) {
    case InstructionSet::kBaseline:
      return true;
    case InstructionSet::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
             __builtin_cpu_supports("bmi2");
    case InstructionSet::kAvx512:
      return processor_has(InstructionSet::kAvx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl");
  }
#endif
  return isa == InstructionSet::kBaseline;
}

bool build_has(InstructionSet isa) {
  switch (isa) {
    case InstructionSet::kBaseline:
      return MYDEV_HAVE_BASELINE;
    case InstructionSet::kAvx2:
      return MYDEV_HAVE_AVX2;
    case InstructionSet::kAvx512:
      return MYDEV_HAVE_AVX512;
  }
  return false;
}

template <typename Predicate>
std::vector<InstructionSet> all_that(Predicate predicate) {
  std::vector<InstructionSet> result;
  std::copy_if(kAll.begin(), kAll.end(), std::back_inserter(result), predicate);
  return result;
}

}  // namespace

InstructionSet choose_instruction_set(std::string_view wanted, std::span<const InstructionSet> built,
                                      std::span<const InstructionSet> processor) {
  const auto names = [](std::span<const InstructionSet> sets, const char* separator) {
    std::string text;
    for (const InstructionSet isa : sets) text.append(text.empty() ? "" : separator).append(instruction_set_name(isa));
    return text;
  };
  std::vector<InstructionSet> usable;
  std::set_intersection(built.begin(), built.end(), processor.begin(), processor.end(), std::back_inserter(usable));
  MYDEV_CHECK(!usable.empty(), MYDEV_FAILED_PRECONDITION, "this build's kernels are for ", names(built, ", "),
              "; this processor has ", names(processor, ", "), " only. Build on this machine, or anywhere with ",
              "CMAKE_ARGS=-DMYDEV_ISA_VARIANTS=all");
  if (wanted == "auto") return usable.back();
  for (const InstructionSet isa : usable) {
    if (wanted == instruction_set_name(isa)) return isa;
  }
  raise(MYDEV_INVALID_ARGUMENT, "MYDEV_ISA='" + std::string(wanted) +
                                    "' is not valid with this processor and build; it takes auto|" +
                                    names(usable, "|"));
}

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
  static const std::vector<InstructionSet> supported =
      all_that([](InstructionSet isa) { return build_has(isa) && processor_has(isa); });
  return supported;
}

InstructionSet instruction_set() {
  static const InstructionSet chosen =
      choose_instruction_set(config_string("MYDEV_ISA"), all_that(build_has), all_that(processor_has));
  return chosen;
}

}  // namespace mydev
