#include "kernels/language/kernel_language.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/language/dialect_texts.h"
#include "runtime/base/status.h"
#include "runtime/driver/kernel_module.h"

namespace mydev {

namespace {

constexpr uint32_t kMostLanes = 256;  // more take much of the memory that a group shares
constexpr uint32_t kGpuThreads = 256;

std::string joined(std::initializer_list<std::string_view> texts) {
  std::string all;
  for (const std::string_view text : texts) all += text;
  return all;
}

std::vector<KernelLanguage> make_languages() {
  std::vector<KernelLanguage> made;
  made.push_back({.name = "c++",
                  .text = joined({kParametersText, kCppText, kPolynomialsText, kFunctionsText, kComplexText}),
                  .elements = 1024,
                  .block = 128,
                  .lanes = 64,
                  .loops = true,
                  .scalar_math = true});
  made.push_back(
      {.name = "cuda-c",
       .text = joined({kParametersText, kCudaText, kDeviceLoopsText, kPolynomialsText, kFunctionsText, kComplexText}),
       .elements = 256,
       .block = 128,
       .lanes = 128,
       .loops = false});
  made.push_back(
      {.name = "opencl-c",
       .text = joined({kParametersText, kOpenclText, kDeviceLoopsText, kPolynomialsText, kFunctionsText, kComplexText}),
       .elements = 64,
       .block = 64,
       .lanes = 64,
       .loops = false});
  return made;
}

std::optional<KernelLanguage> language_of(const Device& device) {
  for (const std::string& name : compiler_languages(device)) {
    const auto known = std::ranges::find(kernel_languages(), name, &KernelLanguage::name);
    if (known != kernel_languages().end()) return known->fitted(compiler_properties(device));
  }
  return std::nullopt;
}

}  // namespace

std::string KernelLanguage::source() const {
  const auto number = [](uint64_t value) { return std::to_string(value); };
  std::string beginning =
      "enum { ELEMENTS = " + number(elements) + ", BLOCK = " + number(block) + ", LANES = " + number(lanes) + " };\n";
  const std::pair<const char*, bool> facts[] = {{"BASE_AND_OFFSET", offsets},
                                                {"FAULT_WORD", fault_word},
                                                {"HAS_F64", f64},
                                                {"HAS_ATOMIC_S64", atomic_s64},
                                                {"SCALAR_MATH", scalar_math}};
  for (const auto& [name, holds] : facts) beginning += std::string("#define ") + name + (holds ? " 1\n" : " 0\n");
  return beginning + text;
}

KernelLanguage KernelLanguage::fitted(const mydev_compiler_properties& properties) const {
  const auto has = [&](uint64_t feature) { return (properties.features & feature) != 0; };
  KernelLanguage fitted = *this;
  fitted.groups = {properties.max_grid[0], properties.max_grid[1]};
  fitted.offsets = properties.parameters == MYDEV_PARAMETERS_BASE_AND_OFFSET;
  fitted.fault_word = properties.fault_word != 0;
  fitted.f64 = has(MYDEV_COMPILER_F64);
  fitted.atomic_f32 = has(MYDEV_COMPILER_ATOMIC_F32);
  fitted.atomic_s64 = has(MYDEV_COMPILER_ATOMIC_S64);
  if (loops) return fitted;
  fitted.scalar_math = has(MYDEV_COMPILER_SCALAR_MATH);
  const uint32_t most = std::min(properties.max_group[0], properties.max_group_threads);
  const auto size = [&](uint32_t usual) {
    const uint32_t wanted = properties.preferred_group_threads != 0 ? properties.preferred_group_threads
                                                                    : std::max(usual, properties.subgroup_size);
    return std::bit_floor(std::min(wanted, most));
  };
  fitted.elements = size(elements);
  fitted.block = size(block);
  fitted.lanes = std::min(size(lanes), kMostLanes);
  // A device that says nothing of subgroups is a processor if its functions are calls for each element.
  const bool in_step = properties.subgroup_size > 1 || (properties.subgroup_size == 0 && !fitted.scalar_math);
  fitted.gpu = in_step && most >= kGpuThreads;
  return fitted;
}

std::array<uint32_t, 3> KernelLanguage::grid(uint64_t wanted) const {
  const uint64_t rows = (wanted + groups[0] - 1) / groups[0];
  MYDEV_CHECK(rows <= groups[1], MYDEV_INVALID_ARGUMENT, "a generated kernel needs ", wanted,
              " groups, and the device runs ", groups[0], " x ", groups[1]);
  return {static_cast<uint32_t>((wanted + rows - 1) / rows), static_cast<uint32_t>(rows), 1};
}

std::span<const KernelLanguage> kernel_languages() {
  static const std::vector<KernelLanguage>& languages = *new std::vector<KernelLanguage>(make_languages());
  return languages;
}

const KernelLanguage* kernel_language(const Device& device) {
  static std::array<std::once_flag, kMaxDevices> once;
  static std::array<std::unique_ptr<const KernelLanguage>, kMaxDevices>& known =
      *new std::array<std::unique_ptr<const KernelLanguage>, kMaxDevices>;
  const auto index = static_cast<size_t>(device.index);
  std::call_once(once[index], [&] {
    if (std::optional<KernelLanguage> language = language_of(device)) {
      known[index] = std::make_unique<const KernelLanguage>(*std::move(language));
    }
  });
  return known[index].get();
}

}  // namespace mydev
