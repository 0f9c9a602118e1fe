// Gathers the records of the kernel groups that builtin_kernels.h lists, and hands them to the registry, which loads
// this library as it does any other library of kernels.
#include "host_kernels/builtin_kernels.h"

#include <algorithm>

#include "host_kernels/isa_variant.h"
#include "host_kernels/onednn/primitive_plan.h"
#include "runtime/base/status.h"

namespace mydev::kernels {

namespace {

using Records = std::vector<const mydev_kernel*>;

void append(Records& records, std::span<const mydev_kernel> group) {
  for (const mydev_kernel& kernel : group) records.push_back(&kernel);
}

}  // namespace

Records builtin_kernels(InstructionSet isa) {
  Records records;
#define MYDEV_APPEND_VARIANT(group) append(records, MYDEV_ISA_VARIANT(isa, group)());
  MYDEV_KERNEL_GROUPS_PER_ISA(MYDEV_APPEND_VARIANT)
#undef MYDEV_APPEND_VARIANT
#define MYDEV_APPEND(group) append(records, group());
  MYDEV_KERNEL_GROUPS_COMPILED_ONCE(MYDEV_APPEND)
#undef MYDEV_APPEND
  return records;
}

const mydev_kernel& builtin_kernel(std::string_view name, InstructionSet isa) {
  const Records records = builtin_kernels(isa);
  const auto found =
      std::find_if(records.begin(), records.end(), [&](const auto* kernel) { return name == kernel->name; });
  MYDEV_CHECK(found != records.end(), MYDEV_NOT_FOUND, "there is no built-in kernel '", name, "'");
  return **found;
}

}  // namespace mydev::kernels

extern "C" MYDEV_EXPORT const mydev_library* mydev_custom_call_query(uint32_t version_major,
                                                                     uint32_t /*version_minor*/) {
  if (version_major != MYDEV_CUSTOM_CALL_VERSION_MAJOR) return nullptr;
  mydev::kernels::make_onednn_statics();
  static const auto& records = *new std::vector(mydev::kernels::builtin_kernels(mydev::instruction_set()));
  static const mydev_library library = {.struct_size = sizeof(mydev_library),
                                        .version_major = MYDEV_CUSTOM_CALL_VERSION_MAJOR,
                                        .version_minor = MYDEV_CUSTOM_CALL_VERSION_MINOR,
                                        .name = "built-in",
                                        .version = nullptr,
                                        .kernels = records.data(),
                                        .num_kernels = static_cast<uint32_t>(records.size())};
  return &library;
}
