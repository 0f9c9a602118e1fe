// Text as a JSON string.
#pragma once

#include <string>
#include <string_view>

namespace mydev {

// Appends the text in double quotes, with escapes for quotes, backslashes and control characters. It must be UTF-8.
void append_json(std::string& out, std::string_view text);

}  // namespace mydev
