// Finds NVIDIA's libraries: at a path that an option gives; beside this package, in the directories of wheels; or where
// the system finds them.
#pragma once

#include <span>
#include <string>

#include "cuda_driver/library/shared_library.h"

namespace mydev::cuda_driver {

struct LibrarySearch {
  const char* option;                   // that gives the path
  std::span<const char* const> names;   // of the library, the best first
  std::span<const char* const> wheels;  // directories beside packages
};

// The library at `path`, which may be its directory; "" looks in the usual places, and finds maybe nothing. Raises
// NOT_FOUND, naming the option, if a path is given and has no library that works.
SharedLibrary find_library(const LibrarySearch& search, const std::string& path);

}  // namespace mydev::cuda_driver
