// Text in double quotes, with escapes for what does not stand for itself.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/api.h"

namespace mydev {

struct EscapeStyle {
  std::string_view prefix = "\\x";  // of the two digits of a byte that is escaped
  std::string_view digits = "0123456789abcdef";
  unsigned char first = 0x20, last = 0x7e;  // bytes outside are escaped
  bool escapes_quotes = false;              // quotes and backslashes likewise; else a backslash stands before them
};

MYDEV_API void append_quoted(std::string& out, std::string_view text, const EscapeStyle& style = {});
MYDEV_API std::string in_quotes(std::string_view text, const EscapeStyle& style = {});

}  // namespace mydev
