#include "runtime/base/quoted.h"

namespace mydev {

void append_quoted(std::string& out, std::string_view text, const EscapeStyle& style) {
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_mark = c == '"' || c == '\\';
    if (byte < style.first || byte > style.last || (is_mark && style.escapes_quotes)) {
      ((out += style.prefix) += style.digits[byte >> 4]) += style.digits[byte & 15];
    } else {
      (is_mark ? out += '\\' : out) += c;
    }
  }
  out += '"';
}

std::string in_quotes(std::string_view text, const EscapeStyle& style) {
  std::string out;
  append_quoted(out, text, style);
  return out;
}

}  // namespace mydev
