#include "cuda_driver/library/library_search.h"

#include <dlfcn.h>

#include <filesystem>
#include <vector>

#include "cuda_driver/library/cuda_error.h"

namespace mydev::cuda_driver {

namespace fs = std::filesystem;

namespace {

// The directory of packages that this library's own package lies in, as <there>/mydev/lib/<this>.
fs::path packages() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&find_library), &info) == 0 || info.dli_fname == nullptr) return {};
  return fs::path(info.dli_fname).parent_path().parent_path().parent_path();
}

std::vector<std::string> candidates(const LibrarySearch& search, const std::string& path) {
  std::vector<std::string> found;
  const auto add_all = [&](const fs::path& directory) {
    for (const char* name : search.names) {
      std::error_code ignored;
      if (fs::exists(directory / name, ignored)) found.push_back((directory / name).string());
    }
  };
  std::error_code ignored;
  if (!path.empty() && fs::is_directory(path, ignored)) {
    add_all(path);
    std::string names;
    for (const char* name : search.names) names += (names.empty() ? "" : " or ") + std::string(name);
    require(!found.empty(), MYDEV_NOT_FOUND, "option '", search.option, "=", path, "' of the CUDA driver: there is no ",
            names, " in this directory");
  } else if (!path.empty()) {
    found.push_back(path);
  } else {
    for (const char* wheel : search.wheels) add_all(packages() / wheel);
    found.insert(found.end(), search.names.begin(), search.names.end());
  }
  return found;
}

}  // namespace

SharedLibrary find_library(const LibrarySearch& search, const std::string& path) {
  SharedLibrary library(candidates(search, path));
  require(static_cast<bool>(library) || path.empty(), MYDEV_NOT_FOUND, "option '", search.option, "=", path,
          "' of the CUDA driver: ", library.problem());
  return library;
}

}  // namespace mydev::cuda_driver
