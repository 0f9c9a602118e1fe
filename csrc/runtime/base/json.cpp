#include "runtime/base/json.h"

namespace mydev {

void append_json(std::string& out, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if (byte < 0x20) {
      ((out += "\\u00") += kDigits[byte >> 4]) += kDigits[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace mydev
