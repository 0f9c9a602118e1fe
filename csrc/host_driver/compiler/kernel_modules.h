// The host driver's compiler extension: modules are shared libraries, which the machine's C++ compiler makes of source
// in language "c++" (kernel_prelude.h says what such source is) or which were made before.
//
// A launch runs ranges of its groups on the process's thread pool. A launch that a stream was given keeps the library,
// not the module: modules may be destroyed before it runs. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>

#include "mydev/driver_extensions.h"

namespace mydev::host_driver {

// True if the machine has a compiler; else the driver does not list this extension.
bool has_compiler();

mydev_code compiler_languages(int32_t device, const char* const** out_languages);
mydev_code compiler_properties(int32_t device, mydev_compiler_properties* out_properties);
mydev_code module_create(int32_t device, const mydev_module_source* source, mydev_module* out_module);
mydev_code module_destroy(mydev_module module);
mydev_code module_binary(mydev_module module, const void** out_data, uint64_t* out_bytes);
mydev_code module_kernel(mydev_module module, const char* name, const mydev_kernel** out_kernel);

class KernelFunctionOfModule;

// A launch, checked, which runs when it is called.
class ModuleLaunch {
 public:
  // Raises INVALID_ARGUMENT for a record that is no module's, and a frame or a geometry that is not the kernel's.
  ModuleLaunch(const mydev_kernel& kernel, const mydev_frame& frame, const mydev_geometry& geometry);
  mydev_code run(const mydev_frame& frame) const noexcept;

 private:
  std::shared_ptr<const KernelFunctionOfModule> function_;
  mydev_geometry geometry_;
};

}  // namespace mydev::host_driver
