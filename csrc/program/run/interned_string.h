// Interned strings: they live as long as the process, for failures that are reported later. Each is stored once.
// Thread-safe.
#pragma once

#include <string>

#include "runtime/base/api.h"

namespace mydev::program {

MYDEV_API const char* interned_string(const std::string& text);

}  // namespace mydev::program
