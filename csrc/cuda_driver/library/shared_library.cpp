#include "cuda_driver/library/shared_library.h"

#include <dlfcn.h>

namespace mydev::cuda_driver {

SharedLibrary::SharedLibrary(std::span<const std::string> names) {
  for (const std::string& name : names) {
    library_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ != nullptr) {
      name_ = name;
      return;
    }
    const char* said = ::dlerror();  // NOLINT(concurrency-mt-unsafe): glibc keeps it per thread
    problem_ += (problem_.empty() ? "" : "; ") + (said == nullptr ? name : std::string(said));
  }
}

void* SharedLibrary::symbol(const std::string& name) const {
  return ::dlsym(library_, name.c_str());
}

}  // namespace mydev::cuda_driver
