// Text as a JSON string.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/quoted.h"

namespace mydev {

// Appends the text in double quotes, with escapes for quotes, backslashes and control characters. It must be UTF-8.
inline void append_json(std::string& out, std::string_view text) {
  append_quoted(out, text, {.prefix = "\\u00", .last = 0xff});
}

}  // namespace mydev
