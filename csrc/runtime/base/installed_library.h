// Where this project's own libraries lie: side by side, in the directory of the one that holds this file.
#pragma once

#include <string>

namespace mydev {

// The path of that library. Whether it is there is seen by whoever opens it.
std::string installed_library(const char* name);

}  // namespace mydev
