#include "opencl_driver/api/opencl_api.h"

#include <dlfcn.h>

#include <array>
#include <string>

#include "opencl_driver/api/errors.h"

namespace mydev::opencl_driver {

namespace {

constexpr std::array kLoaders = {"libOpenCL.so.1", "libOpenCL.so"};

OpenclApi& functions() {
  static OpenclApi instance;
  return instance;
}

void* open_loader() {
  std::string reasons;
  for (const char* name : kLoaders) {
    if (void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    const char* reason = ::dlerror();  // NOLINT(concurrency-mt-unsafe): glibc keeps it per thread
    if (reasons.empty() && reason != nullptr) reasons = reason;
  }
  raise(MYDEV_NOT_FOUND, "there is no OpenCL here (", reasons,
        "); install its loader (Debian: ocl-icd-libopencl1) and the platform of a device (for this processor: "
        "pocl-opencl-icd)");
}

template <typename Function>
void find(void* library, const char* name, Function& out) {
  out = reinterpret_cast<Function>(::dlsym(library, name));
}

}  // namespace

const OpenclApi& cl() {
  return functions();
}

void load_opencl() {
  void* library = open_loader();
  OpenclApi& api = functions();
#define MYDEV_FIND(name, ...)                                                                             \
  find(library, #name, api.name);                                                                         \
  require(api.name != nullptr, MYDEV_FAILED_PRECONDITION, "libOpenCL has no ", #name, ", a function of ", \
          "OpenCL 1.2; install a newer loader (Debian: ocl-icd-libopencl1)");
  MYDEV_OPENCL_FUNCTIONS(MYDEV_FIND)
#undef MYDEV_FIND
#define MYDEV_FIND(name, ...) find(library, #name, api.name);
  MYDEV_OPENCL_LATER_FUNCTIONS(MYDEV_FIND)
#undef MYDEV_FIND
}

bool load_usm(cl_platform_id platform) {
  OpenclApi& api = functions();
  bool all = true;
#define MYDEV_FIND(name, ...)                                                                                     \
  api.name = reinterpret_cast<decltype(api.name)>(api.clGetExtensionFunctionAddressForPlatform(platform, #name)); \
  all = all && api.name != nullptr;
  MYDEV_OPENCL_USM_FUNCTIONS(MYDEV_FIND)
#undef MYDEV_FIND
  return all;
}

}  // namespace mydev::opencl_driver
