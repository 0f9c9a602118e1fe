// Loading libraries of kernels (mydev/custom_call.h).
//
// Loading runs code of the library with all the rights of this process, its static constructors before any check that
// follows. Libraries are loaded with RTLD_NOW | RTLD_LOCAL and never unloaded: a kernel may be running, and its static
// objects may be registered for exit. Thread-safe.
//
// Discovery. MYDEV_CUSTOM_CALLS lists files and directories, colon-separated, absolute paths only; it is ignored in a
// process with more rights than its user (AT_SECURE). Files that others may replace are refused. In a directory every
// "*.so" counts. Beside "lib.so" may lie a manifest "lib.so.json", {"kernels": ["name", ...]}: then the library is
// loaded when one of the names is first looked up, otherwise at the first lookup that finds nothing ("mydev." names
// apart). A manifest is a hint: what counts is what the library says. A library that fails to load is not tried again;
// refused_kernel_libraries tells why.
#pragma once

#include <string>
#include <vector>

#include "mydev/custom_call.h"
#include "runtime/base/api.h"

namespace mydev {

struct LibraryInfo {
  std::string file;
  std::string name, version;
  uint32_t version_major = 0, version_minor = 0;
  std::vector<std::string> kernels;  // that were registered
};

// Loads a file and registers its kernels; the same file again is accepted and does nothing. Raises NOT_FOUND (no such
// file), INVALID_ARGUMENT (not a library, no query function, an absurd table, a bad record; the message says which),
// FAILED_PRECONDITION (another version of the ABI), ALREADY_EXISTS (a name is taken; then none of its kernels is
// registered).
MYDEV_API LibraryInfo load_kernel_library(const std::string& file);
// Loads the file anew, from a private copy, and puts its kernels in the place of the old ones; for development. The old
// code stays mapped, so the file must have been replaced by a new one, as linkers do, and not been written into.
MYDEV_API LibraryInfo reload_kernel_library(const std::string& file);
MYDEV_API std::vector<LibraryInfo> loaded_kernel_libraries();

// Refused files of MYDEV_CUSTOM_CALLS with the reason, for the command line: "relative path", "world-writable", ...
struct RefusedLibrary {
  std::string file, reason;
};
MYDEV_API std::vector<RefusedLibrary> refused_kernel_libraries();
// Loads the libraries that MYDEV_CUSTOM_CALLS names and that have not been loaded; if `name` is given, only those that
// may have it. True if any was loaded.
MYDEV_API bool load_discovered_libraries(const char* name);

}  // namespace mydev
