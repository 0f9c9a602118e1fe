// Text as a JSON string.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/api.h"

namespace mydev {

// Appends the text in double quotes, with escapes for quotes, backslashes and control characters. It must be UTF-8.
MYDEV_API void append_json(std::string& out, std::string_view text);

}  // namespace mydev
