// Validation: the compiler extension. Checks handles, and launches of compiled kernels, whose results are the buffers
// that they write.
#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/validation/finding.h"
#include "runtime/validation/state.h"

namespace mydev::validation {

namespace {

// mutex held
void check_module(const State& self, mydev_module module) {
  require(self.modules.contains(module), MYDEV_INVALID_ARGUMENT, static_cast<const void*>(module),
          " is no live module made by this driver's module_create");
}

mydev_code languages(int32_t device, const char* const** out_languages) {
  State& self = state();
  return checked("languages", [&] {
    {
      const std::lock_guard lock(self.mutex);
      self.objects.device(device);
      require(out_languages != nullptr, MYDEV_INVALID_ARGUMENT, "out_languages is NULL");
    }
    const mydev_code code = self.compiler.languages(device, out_languages);
    require(code != MYDEV_OK || *out_languages != nullptr, MYDEV_FAILED_PRECONDITION,
            "the driver said OK and gave NULL for its languages");
    return code;
  });
}

mydev_code module_create(int32_t device, const mydev_module_source* source, mydev_module* out_module) {
  State& self = state();
  return checked("module_create", [&] {
    {
      const std::lock_guard lock(self.mutex);
      self.objects.device(device);
    }
    require(source != nullptr && out_module != nullptr, MYDEV_INVALID_ARGUMENT, "source or out_module is NULL");
    require(
        source->language != nullptr && source->options != nullptr && (source->data != nullptr || source->bytes == 0),
        MYDEV_INVALID_ARGUMENT, "the language, the options or the data of the source is NULL");
    const mydev_code code = self.compiler.module_create(device, source, out_module);
    if (code != MYDEV_OK) return code;
    require(*out_module != nullptr, MYDEV_FAILED_PRECONDITION, "the driver said OK and gave NULL for a module");
    const std::lock_guard lock(self.mutex);
    const auto [module, fresh] = self.modules.emplace(*out_module, device);
    require(fresh, MYDEV_FAILED_PRECONDITION,
            "the driver gave the handle of a live module again: ", static_cast<const void*>(*out_module));
    return code;
  });
}

// The driver may give the handle, and the addresses of the records, to another module as soon as it is destroyed.
mydev_code module_destroy(mydev_module module) {
  State& self = state();
  return checked("module_destroy", [&] {
    {
      const std::lock_guard lock(self.mutex);
      check_module(self, module);
      self.modules.erase(module);
      std::erase_if(self.module_kernels, [&](const auto& kernel) { return kernel.second == module; });
    }
    return self.compiler.module_destroy(module);
  });
}

mydev_code module_binary(mydev_module module, const void** out_data, uint64_t* out_bytes) {
  State& self = state();
  return checked("module_binary", [&] {
    {
      const std::lock_guard lock(self.mutex);
      check_module(self, module);
    }
    require(out_data != nullptr && out_bytes != nullptr, MYDEV_INVALID_ARGUMENT, "out_data or out_bytes is NULL");
    const mydev_code code = self.compiler.module_binary(module, out_data, out_bytes);
    require(code != MYDEV_OK || (*out_data != nullptr && *out_bytes != 0), MYDEV_FAILED_PRECONDITION,
            "the driver said OK and gave an empty binary");
    return code;
  });
}

mydev_code module_kernel(mydev_module module, const char* name, const mydev_kernel** out_kernel) {
  State& self = state();
  return checked("module_kernel", [&] {
    {
      const std::lock_guard lock(self.mutex);
      check_module(self, module);
    }
    require(name != nullptr && out_kernel != nullptr, MYDEV_INVALID_ARGUMENT, "the name or out_kernel is NULL");
    const mydev_code code = self.compiler.module_kernel(module, name, out_kernel);
    if (code != MYDEV_OK) return code;
    const mydev_kernel* kernel = *out_kernel;
    require(kernel != nullptr && kernel->name != nullptr && kernel->struct_size >= offsetof(mydev_kernel, limits) &&
                kernel->runs == MYDEV_RUNS_DRIVER,
            MYDEV_FAILED_PRECONDITION,
            "the driver said OK and gave no record of a name that says MYDEV_RUNS_DRIVER for '", name, "'");
    const std::lock_guard lock(self.mutex);
    const auto [known, fresh] = self.module_kernels.emplace(kernel, module);
    require(fresh || known->second == module, MYDEV_FAILED_PRECONDITION, "the driver gave the record '", kernel->name,
            "' of another live module");
    return code;
  });
}

std::string text_of(const mydev_geometry& geometry) {
  const auto sizes = [](const uint32_t (&of)[3]) { return text(of[0], " x ", of[1], " x ", of[2]); };
  return text("a grid of ", sizes(geometry.grid), " groups of ", sizes(geometry.group), " threads");
}

mydev_code launch_compiled(mydev_stream stream, const mydev_kernel* kernel, mydev_frame* frame,
                           const mydev_geometry* geometry) {
  State& self = state();
  return checked("launch of a compiled kernel", [&] {
    require(kernel != nullptr && frame != nullptr && geometry != nullptr, MYDEV_INVALID_ARGUMENT,
            "the kernel, the frame or the geometry is NULL");
    {
      const std::lock_guard lock(self.mutex);
      const auto found = self.module_kernels.find(kernel);
      require(found != self.module_kernels.end(), MYDEV_INVALID_ARGUMENT, static_cast<const void*>(kernel),
              " is no record that module_kernel gave for a live module");
      const int32_t device = self.modules.at(found->second);
      require(frame->device == device, MYDEV_INVALID_ARGUMENT, "'", kernel->name, "' was compiled for device ", device,
              ", and is launched on device ", frame->device);
    }
    const auto none = [](const uint32_t (&sizes)[3]) { return std::ranges::count(sizes, 0U) != 0; };
    require(!none(geometry->grid) && !none(geometry->group), MYDEV_INVALID_ARGUMENT, "'", kernel->name,
            "' is launched with ", text_of(*geometry), "; each dimension is at least 1");
    return launch_checked(stream, *kernel, *frame, /*of_driver=*/true,
                          [&] { return self.compiler.launch(stream, kernel, frame, geometry); });
  });
}

// Returns the driver's table with our checks before it. A table of another extension, or one that the loader refuses,
// is returned as it is.
const void* extension(const char* name, uint32_t version) {
  State& self = state();
  const void* table = self.driver.extension(name, version);
  const auto* theirs = static_cast<const mydev_compiler_extension*>(table);
  if (theirs == nullptr || std::strcmp(name, MYDEV_COMPILER_EXTENSION) != 0 ||
      theirs->head.struct_size < offsetof(mydev_compiler_extension, properties)) {
    return table;
  }
  static mydev_compiler_extension ours;
  std::memcpy(&ours, theirs, std::min(theirs->head.struct_size, sizeof(ours)));
  self.compiler = ours;
  const auto put = [](auto& entry, auto check) { entry = entry != nullptr ? check : nullptr; };
  ours.head.struct_size = sizeof(ours);
  put(ours.languages, languages);
  put(ours.module_create, module_create);
  put(ours.module_destroy, module_destroy);
  put(ours.module_binary, module_binary);
  put(ours.module_kernel, module_kernel);
  put(ours.launch, launch_compiled);
  return &ours;
}

}  // namespace

void put_module_checks(mydev_driver_api& table) {
  if (table.extension != nullptr) table.extension = extension;
}

}  // namespace mydev::validation
