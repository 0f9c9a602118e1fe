#include "host_driver/compiler/kernel_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <system_error>

#include "host_driver/host_error.h"

namespace mydev::host_driver {

namespace {

namespace fs = std::filesystem;

// Nothing where the environment names no place. Read each time: kernels are compiled seldom.
std::optional<fs::path> cache_directory() {
  const char* cache = std::getenv("XDG_CACHE_HOME");  // NOLINT(concurrency-mt-unsafe)
  const char* home = std::getenv("HOME");             // NOLINT(concurrency-mt-unsafe)
  fs::path base;
  if (cache != nullptr && *cache == '/') {
    base = cache;
  } else if (home != nullptr && *home == '/') {
    base = fs::path(home) / ".cache";
  } else {
    return std::nullopt;
  }
  return base / "torch_mydev" / "host_kernels";
}

// Code is run from there: nobody else may write to it.
bool is_private(const fs::path& directory) {
  struct stat status{};
  return ::stat(directory.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0 && ::access(directory.c_str(), W_OK | X_OK) == 0;
}

std::optional<fs::path> usable_cache() {
  const std::optional<fs::path> directory = cache_directory();
  if (!directory) return std::nullopt;
  std::error_code problem;
  const bool made = fs::create_directories(*directory, problem);
  if (problem) return std::nullopt;
  if (made) fs::permissions(*directory, fs::perms::owner_all, problem);
  return is_private(*directory) ? directory : std::nullopt;
}

// A directory inside the cache to make one library in: a renamed file stays in one file system.
class Workplace {
 public:
  explicit Workplace(const fs::path& cache) {
    std::string name = (cache / "making-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~Workplace() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;
  const fs::path& path() const noexcept { return path_; }  // "" where there can be none

 private:
  fs::path path_;
};

}  // namespace

TemporaryDirectory::TemporaryDirectory() {
  std::error_code problem;
  std::string name = (fs::temp_directory_path(problem) / "mydev-kernels-XXXXXX").string();
  require(!problem && ::mkdtemp(name.data()) != nullptr, MYDEV_UNAVAILABLE, "kernels cannot be compiled: neither the ",
          "cache (XDG_CACHE_HOME, HOME) nor the directory for temporary files (TMPDIR) can be written to");
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

CachedLibrary find_or_make(const std::string& key, bool again,
                           const std::function<void(const fs::path& library)>& make) {
  if (const std::optional<fs::path> cache = usable_cache()) {
    const fs::path kept = *cache / (key + ".so");
    std::error_code problem;
    if (!again && fs::exists(kept, problem)) return {kept, nullptr};
    const Workplace workplace(*cache);
    if (!workplace.path().empty()) {
      const fs::path made = workplace.path() / "kernel.so";
      make(made);
      fs::rename(made, kept, problem);
      if (!problem) return {kept, nullptr};
    }
  }
  const auto directory = std::make_shared<const TemporaryDirectory>();
  fs::path library = directory->path() / (key + ".so");
  make(library);
  return {std::move(library), directory};
}

}  // namespace mydev::host_driver
