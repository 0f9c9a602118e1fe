#include "kernels/registry/builtin_library.h"

#include <dlfcn.h>

#include <string>

#include "kernels/registry/library_table.h"
#include "kernels/registry/shared_object.h"
#include "runtime/base/installed_library.h"
#include "runtime/base/instruction_set.h"
#include "runtime/base/status.h"

namespace mydev {

namespace {

std::span<const mydev_kernel* const> load_kernels(const char* name) {
  const std::string file = installed_library(name);
  std::string problem;
  void* library = open_shared_object(file, problem);
  MYDEV_CHECK(library != nullptr, MYDEV_FAILED_PRECONDITION, "the built-in kernels cannot be loaded: ", problem,
              "; `mydev doctor` examines the installation");
  const mydev_library table = query_library(file, ::dlsym(library, MYDEV_CUSTOM_CALL_QUERY_SYMBOL));
  return {table.kernels, table.num_kernels};
}

}  // namespace

std::span<const mydev_kernel* const> load_builtin_kernels() {
  // Raises here: an exception of the library's query function would be reported as the library's fault.
  instruction_set();
  return load_kernels("libmydev_host_kernels.so");
}

std::span<const mydev_kernel* const> load_portable_kernels() {
  return load_kernels("libmydev_device_kernels.so");
}

}  // namespace mydev
