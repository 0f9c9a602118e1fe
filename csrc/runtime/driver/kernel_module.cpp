#include "runtime/driver/kernel_module.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <utility>

#include "runtime/base/device_name.h"
#include "runtime/base/status.h"
#include "runtime/driver/binary_cache.h"
#include "runtime/driver/driver_life_cycle.h"

namespace mydev {

namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

// A record that names a kernel. There is one for each name. It is never freed, since traces and errors may name it at
// any time.
struct ShownKernel {
  std::string name;
  mydev_kernel record{};
};

const char kCompiled = 0;  // its address marks the records that are made here

const mydev_kernel& shown_kernel(const std::string& function) {
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::map<std::string, ShownKernel>;
  const std::lock_guard lock(mutex);
  const auto [place, is_new] = all.try_emplace(function);
  ShownKernel& shown = place->second;
  if (is_new) {
    shown.name = "compiled." + function;
    shown.record = {.struct_size = sizeof(mydev_kernel),
                    .name = shown.name.c_str(),
                    .driver_data = const_cast<char*>(&kCompiled),  // NOLINT(cppcoreguidelines-pro-type-const-cast)
                    .runs = MYDEV_RUNS_DRIVER};
  }
  return shown.record;
}

}  // namespace

const mydev_compiler_extension* compiler_of(const Device& device) {
  return extension_of<mydev_compiler_extension>(*device.driver, MYDEV_COMPILER_EXTENSION);
}

bool is_compiled_kernel(const mydev_kernel& kernel) noexcept {
  return kernel.driver_data == &kCompiled;
}

mydev_geometry make_geometry(const std::array<uint32_t, 3>& grid, const std::array<uint32_t, 3>& group,
                             uint64_t local_memory) noexcept {
  return {.struct_size = sizeof(mydev_geometry),
          .grid = {grid[0], grid[1], grid[2]},
          .group = {group[0], group[1], group[2]},
          .local_memory = local_memory};
}

std::vector<std::string> compiler_languages(const Device& device) {
  const mydev_compiler_extension* compiler = compiler_of(device);
  if (compiler == nullptr) return {};
  const char* const* listed = nullptr;
  check_driver(device, compiler->languages(device.index, &listed), "asking for the compiler's languages");
  std::vector<std::string> languages;
  for (; listed != nullptr && *listed != nullptr; ++listed) languages.emplace_back(*listed);
  return languages;
}

mydev_compiler_properties compiler_properties(const Device& device) {
  const mydev_compiler_extension& compiler = *compiler_of(device);
  mydev_compiler_properties properties{
      .struct_size = sizeof(mydev_compiler_properties),
      .max_group = {1024, 1024, 1024},
      .max_group_threads = 1024,
      .max_grid = {UINT32_MAX, UINT32_MAX, UINT32_MAX},
      .features = MYDEV_COMPILER_F64 | MYDEV_COMPILER_ATOMIC_F32 | MYDEV_COMPILER_ATOMIC_S64};
  if (compiler.properties == nullptr) return properties;
  check_driver(device, compiler.properties(device.index, &properties), "asking for the compiler's properties");
  const auto require = [&](bool condition, const auto&... what) {
    MYDEV_CHECK(condition, MYDEV_FAILED_PRECONDITION, "driver '", device.driver->name,
                "': the properties of its compiler have ", what...);
  };
  for (int d = 0; d < 3; ++d) {
    require(properties.max_group[d] != 0 && properties.max_grid[d] != 0, "max_group or max_grid 0 in dimension ", d,
            "; 1 is the least");
  }
  require(properties.max_group_threads != 0, "max_group_threads 0; 1 is the least");
  require(properties.preferred_group_threads <= properties.max_group_threads &&
              properties.subgroup_size <= properties.max_group_threads,
          "preferred_group_threads ", properties.preferred_group_threads, " and subgroup_size ",
          properties.subgroup_size, ", more than max_group_threads ", properties.max_group_threads);
  require(properties.parameters <= MYDEV_PARAMETERS_BASE_AND_OFFSET, "parameters ", properties.parameters,
          "; see mydev_parameter_form");
  return properties;
}

// --- modules ---------------------------------------------------------------------------------------------------------

std::shared_ptr<KernelModule> KernelModule::compile(Device& device, const std::string& language,
                                                    std::string_view source, const std::string& options) {
  const mydev_compiler_extension* compiler = compiler_of(device);
  MYDEV_CHECK(compiler != nullptr, MYDEV_UNIMPLEMENTED, "device ", device_text(device.index),
              " compiles no kernels: driver '", device.driver->name,
              "' has no extension '" MYDEV_COMPILER_EXTENSION "'");
  const std::vector<std::string> languages = compiler_languages(device);
  MYDEV_CHECK(language == MYDEV_MODULE_BINARY || std::ranges::find(languages, language) != languages.end(),
              MYDEV_INVALID_ARGUMENT, "device ", device_text(device.index), " compiles no '", language, "'; it takes ",
              joined(languages), " and '" MYDEV_MODULE_BINARY "'");
  const mydev_module_source given{.struct_size = sizeof(mydev_module_source),
                                  .language = language.c_str(),
                                  .data = source.data(),
                                  .bytes = source.size(),
                                  .options = options.c_str()};
  mydev_module handle = nullptr;
  check_driver(device, compiler->module_create(device.index, &given, &handle), "compiling kernels");
  return std::shared_ptr<KernelModule>(new KernelModule(device, *compiler, handle));
}

std::shared_ptr<KernelModule> KernelModule::find_or_compile(Device& device, const std::string& language,
                                                            std::string_view source, const std::string& options) {
  const mydev_compiler_extension* compiler = compiler_of(device);
  if (compiler == nullptr || compiler->module_binary == nullptr) return compile(device, language, source, options);
  const std::string key = binary_key(device, {"module", language, options, source});
  const auto load = [&](const std::string& binary) { return compile(device, MYDEV_MODULE_BINARY, binary, ""); };
  std::shared_ptr<KernelModule> module = load_binary(key, load);
  if (module != nullptr) return module;
  module = compile(device, language, source, options);
  keep_binary(key, module->binary().value_or(std::span<const std::byte>()));
  return module;
}

KernelModule::~KernelModule() {
  // A child after fork has neither the driver nor its modules. A failure cannot be reported here.
  if (driver_loaded()) compiler_.module_destroy(handle_);
}

std::optional<std::span<const std::byte>> KernelModule::binary() const {
  if (compiler_.module_binary == nullptr) return std::nullopt;
  const void* data = nullptr;
  uint64_t bytes = 0;
  check_driver(device_, compiler_.module_binary(handle_, &data, &bytes), "asking for a module's binary");
  return std::span(static_cast<const std::byte*>(data), bytes);
}

std::shared_ptr<const CompiledKernel> KernelModule::kernel(const std::string& name, KernelParameters parameters) {
  const size_t other = parameters.numbers.find_first_not_of("if");
  MYDEV_CHECK(other == std::string::npos, MYDEV_INVALID_ARGUMENT, "kernel '", name, "': its numbers are '",
              parameters.numbers, "'; give an 'i' for each integer and an 'f' for each floating-point number");
  const mydev_kernel* record = nullptr;
  const std::string what = "looking for the kernel '" + name + "' in a compiled module";
  check_driver(device_, compiler_.module_kernel(handle_, name.c_str(), &record), what.c_str());
  MYDEV_CHECK(record != nullptr, MYDEV_INTERNAL, what, ": the driver gave none, and no error");
  return std::make_shared<CompiledKernel>(shared_from_this(), compiler_, *record, shown_kernel(name),
                                          std::move(parameters));
}

CompiledKernel::CompiledKernel(std::shared_ptr<const KernelModule> module, const mydev_compiler_extension& compiler,
                               const mydev_kernel& record, const mydev_kernel& shown, KernelParameters parameters)
    : module_(std::move(module)),
      compiler_(compiler),
      record_(record),
      shown_(shown),
      parameters_(std::move(parameters)) {
  for (const char number : parameters_.numbers) names_.push_back(number + std::to_string(names_.size()));
  for (size_t i = 0; i < names_.size(); ++i) {
    const auto kind = parameters_.numbers[i] == 'i' ? MYDEV_ATTRIBUTE_INT : MYDEV_ATTRIBUTE_FLOAT;
    attributes_.push_back({.name = names_[i].c_str(), .kind = static_cast<uint16_t>(kind)});
  }
}

}  // namespace mydev
