// The cache of compiled kernels: a library for each content, in ${XDG_CACHE_HOME:-~/.cache}/torch_mydev/host_kernels.
//
// Files are written under a name of their own and renamed, so that a library is there as a whole or not at all, however
// many processes make it. The directory is its user's alone. If there can be none, libraries lie in a directory for
// temporary files, and are removed with their last user. Nothing else is ever removed, but a user may remove libraries
// at any time. Thread-safe.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace mydev::host_driver {

// A directory of its own for temporary files, removed with this.
class TemporaryDirectory {
 public:
  TemporaryDirectory();  // raises UNAVAILABLE
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

struct CachedLibrary {
  std::filesystem::path path;
  std::shared_ptr<const TemporaryDirectory> owner;  // of the file; nullptr: the cache
};

// Returns the library for `key`, a file name. If there is none, `make` writes it to the path that it is given, in a
// directory that it may write other files to. `again`: an existing library is made anew. Raises what `make` raises.
CachedLibrary find_or_make(const std::string& key, bool again,
                           const std::function<void(const std::filesystem::path& library)>& make);

}  // namespace mydev::host_driver
