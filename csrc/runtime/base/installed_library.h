// Finds this project's own libraries. They lie side by side, in the folder of the library that this file is part of.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "runtime/base/api.h"

namespace mydev {

// The drivers that are part of this project: MYDEV_DRIVER takes their names.
inline constexpr std::array<std::string_view, 3> kInstalledDrivers = {"host", "opencl", "cuda"};

// Returns the path of the library `name`. The caller finds out whether it exists when it opens it.
MYDEV_API std::string installed_library(const char* name);

}  // namespace mydev
