// Where compiled kernels are kept: a library for each content, in ${XDG_CACHE_HOME:-~/.cache}/torch_mydev/host_kernels.
//
// Files are written under a name of their own and renamed, so that a library is there as a whole or not at all, however
// many processes make it. The directory is its user's alone; where there can be none, libraries are kept in a directory
// for temporary files, and end with their users. Nothing is ever removed: a user may, at any time. Thread-safe.
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

// The library for `key`, a file name. Where there is none, `make` writes it to the path that it is given, in a
// directory that it may write other files to. `again`: whatever is there is made anew. Raises what `make` does.
CachedLibrary find_or_make(const std::string& key, bool again,
                           const std::function<void(const std::filesystem::path& library)>& make);

}  // namespace mydev::host_driver
