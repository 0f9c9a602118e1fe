#include "runtime/base/installed_library.h"

#include <dlfcn.h>

#include <filesystem>

namespace mydev {

std::string installed_library(const char* name) {
  Dl_info ours{};
  const bool known = ::dladdr(reinterpret_cast<const void*>(&installed_library), &ours) != 0;
  if (!known || ours.dli_fname == nullptr) return name;  // left to the dynamic loader's own search
  // The loader may have found this library by way of a folder beside it, so the path is normalized.
  return std::filesystem::path(ours.dli_fname).replace_filename(name).lexically_normal().string();
}

}  // namespace mydev
