#include "kernels/registry/kernel_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>

#include "kernels/registry/kernel_registry.h"
#include "kernels/registry/shared_object.h"
#include "kernels/registry/struct_copy.h"
#include "runtime/status.h"
#include "runtime/utf8.h"

namespace mydev {

namespace {

namespace fs = std::filesystem;

constexpr uint32_t kMaxKernels = 4096;

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

std::string version_text(uint32_t major, uint32_t minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

// Asks an open library for its table.
mydev_library query_library(const std::string& file, void* symbol) {
  MYDEV_CHECK(symbol != nullptr, MYDEV_INVALID_ARGUMENT, "'", file,
              "' is no library of kernels: it does not export " MYDEV_CUSTOM_CALL_QUERY_SYMBOL
              " (see mydev/custom_call.h)");
  const std::string ours = version_text(MYDEV_CUSTOM_CALL_VERSION_MAJOR, MYDEV_CUSTOM_CALL_VERSION_MINOR);
  const mydev_library* theirs = nullptr;
  std::string thrown;
  try {
    theirs = reinterpret_cast<mydev_custom_call_query_fn>(symbol)(MYDEV_CUSTOM_CALL_VERSION_MAJOR,
                                                                  MYDEV_CUSTOM_CALL_VERSION_MINOR);
  } catch (const std::exception& error) {
    thrown = std::string(": ") + error.what();
  } catch (...) {
    thrown = ": something that is no std::exception";
  }
  MYDEV_CHECK(thrown.empty(), MYDEV_INVALID_ARGUMENT, "library '", file, "': its query function threw", thrown);
  MYDEV_CHECK(theirs != nullptr, MYDEV_FAILED_PRECONDITION, "library '", file, "' refuses version ", ours,
              " of mydev/custom_call.h (" MYDEV_CUSTOM_CALL_QUERY_SYMBOL " returned NULL); rebuild it against this ",
              "version");
  MYDEV_CHECK(theirs->struct_size >= MYDEV_END_OF(mydev_library, version_minor), MYDEV_INVALID_ARGUMENT, "library '",
              file, "' gives a table of ", theirs->struct_size, " bytes, too small to hold its version");
  MYDEV_CHECK(theirs->version_major == MYDEV_CUSTOM_CALL_VERSION_MAJOR, MYDEV_FAILED_PRECONDITION, "library '", file,
              "' is built for version ", version_text(theirs->version_major, theirs->version_minor),
              " of mydev/custom_call.h, this host needs ", MYDEV_CUSTOM_CALL_VERSION_MAJOR, ".x; rebuild it");
  const mydev_library library =
      copy_struct(theirs, MYDEV_END_OF(mydev_library, num_kernels), ("the table of '" + file + "'").c_str());
  MYDEV_CHECK(library.num_kernels <= kMaxKernels, MYDEV_INVALID_ARGUMENT, "library '", file, "' says that it has ",
              library.num_kernels, " kernels; the limit is ", kMaxKernels);
  MYDEV_CHECK(library.num_kernels == 0 || library.kernels != nullptr, MYDEV_INVALID_ARGUMENT, "library '", file,
              "': its table of kernels is NULL");
  for (uint32_t i = 0; i < library.num_kernels; ++i) {
    MYDEV_CHECK(library.kernels[i] != nullptr, MYDEV_INVALID_ARGUMENT, "library '", file, "': kernel ", i, " is NULL");
  }
  return library;
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

// A copy under a name of its own, without which the same file would not be read again; removed as soon as it is open.
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
