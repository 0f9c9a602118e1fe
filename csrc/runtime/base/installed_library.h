// Finds this project's own libraries. They lie side by side, in the folder of the library that this file is part of.
#pragma once

#include <string>

#include "runtime/base/api.h"

namespace mydev {

// Returns the path of the library `name`. The caller finds out whether it exists when it opens it.
MYDEV_API std::string installed_library(const char* name);

}  // namespace mydev
