#include "kernels/registry/kernel_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <mutex>

#include "kernels/registry/kernel_registry.h"
#include "kernels/registry/library_table.h"
#include "kernels/registry/shared_object.h"
#include "runtime/base/status.h"
#include "runtime/base/utf8.h"

namespace mydev {

namespace {

namespace fs = std::filesystem;

struct Libraries {
  std::mutex mutex;
  std::map<std::string, LibraryInfo> by_file;  // canonical paths

  static Libraries& instance() {
    static Libraries& libraries = *new Libraries;
    return libraries;
  }
};

std::string canonical_file(const std::string& file) {
  std::error_code error;
  const fs::path path = fs::canonical(file, error);
  MYDEV_CHECK(!error, MYDEV_NOT_FOUND, "library '", file, "': no such file");
  MYDEV_CHECK(fs::is_regular_file(path, error), MYDEV_INVALID_ARGUMENT, "library '", file, "' is no regular file");
  return path.string();
}

// Opens `opened`, which is `file` or a copy of it, and registers its kernels.
LibraryInfo open_and_register(const std::string& file, const std::string& opened, bool replace) {
  const char* fault = find_elf_fault(opened);
  MYDEV_CHECK(fault == nullptr, MYDEV_INVALID_ARGUMENT, "'", file, "' cannot be loaded: ", fault);
  provide_status_functions();
  std::string problem;
  void* handle = open_shared_object(opened, problem);
  MYDEV_CHECK(handle != nullptr, MYDEV_INVALID_ARGUMENT, "'", file, "' cannot be loaded: ", problem);
  void* query = ::dlsym(handle, MYDEV_CUSTOM_CALL_QUERY_SYMBOL);
  if (query == nullptr && !replace) {
    // XLA's handlers may have registered themselves just now.
    std::vector<std::string> registered = kernel_names_of(file);
    if (!registered.empty()) return {file, "self-registering handlers", "", 0, 0, std::move(registered)};
  }
  const mydev_library library = query_library(file, query);
  LibraryInfo info{file,
                   library.name != nullptr ? to_utf8(library.name) : "unnamed",
                   library.version != nullptr ? to_utf8(library.version) : "",
                   library.version_major,
                   library.version_minor,
                   {}};
  const std::span<const mydev_kernel* const> kernels(library.kernels, library.num_kernels);
  register_kernels(kernels, {file, info.version.empty() ? info.name : info.name + " " + info.version}, replace);
  for (const mydev_kernel* kernel : kernels) info.kernels.emplace_back(kernel->name);
  return info;
}

// A copy of a file under a name of its own: without it, the same file would not be read again. It is removed as soon as
// it is open.
class PrivateCopy {
 public:
  explicit PrivateCopy(const std::string& file) {
    std::string path = (fs::temp_directory_path() / "mydev-XXXXXX").string();
    const int descriptor = ::mkstemp(path.data());
    MYDEV_CHECK(descriptor >= 0, MYDEV_UNAVAILABLE, "cannot make a copy of '", file, "' in ",
                fs::temp_directory_path().string());
    ::close(descriptor);
    path_ = path;
    std::error_code error;
    fs::copy_file(file, path_, fs::copy_options::overwrite_existing, error);
    if (error) {
      fs::remove(path_, error);
      raise(MYDEV_UNAVAILABLE, "cannot copy '" + file + "' to '" + path + "'");
    }
  }
  ~PrivateCopy() {
    std::error_code error;
    fs::remove(path_, error);
  }
  PrivateCopy(const PrivateCopy&) = delete;
  PrivateCopy& operator=(const PrivateCopy&) = delete;
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

}  // namespace

LibraryInfo load_kernel_library(const std::string& file) {
  const std::string canonical = canonical_file(file);
  const Loading scope;
  Libraries& libraries = Libraries::instance();
  const std::lock_guard lock(libraries.mutex);
  const auto known = libraries.by_file.find(canonical);
  if (known != libraries.by_file.end()) return known->second;
  LibraryInfo info = open_and_register(canonical, canonical, false);
  return libraries.by_file.emplace(canonical, std::move(info)).first->second;
}

LibraryInfo reload_kernel_library(const std::string& file) {
  const std::string canonical = canonical_file(file);
  const Loading scope;
  Libraries& libraries = Libraries::instance();
  const std::lock_guard lock(libraries.mutex);
  const PrivateCopy copy(canonical);
  LibraryInfo info = open_and_register(canonical, copy.path(), true);
  return libraries.by_file.insert_or_assign(canonical, std::move(info)).first->second;
}

std::vector<LibraryInfo> loaded_kernel_libraries() {
  Libraries& libraries = Libraries::instance();
  const std::lock_guard lock(libraries.mutex);
  std::vector<LibraryInfo> infos;
  infos.reserve(libraries.by_file.size());
  for (const auto& [file, info] : libraries.by_file) infos.push_back(info);
  return infos;
}

}  // namespace mydev
