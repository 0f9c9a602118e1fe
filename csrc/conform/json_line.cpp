#include "conform/json_line.h"

#include <cstdio>
#include <iterator>

#include "runtime/base/utf8.h"

namespace mydev::conform {

namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char character : to_utf8(text)) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20) {
      char escape[8];
      std::snprintf(escape, std::size(escape), "\\u%04x", byte);
      out += escape;
      continue;
    }
    if (character == '"' || character == '\\') out += '\\';
    out += character;
  }
  return out + '"';
}

}  // namespace

void JsonLine::begin(std::string_view key) {
  if (!body_.empty()) body_ += ", ";
  body_ += quoted(key) + ": ";
}

JsonLine& JsonLine::text(std::string_view key, std::string_view value) {
  begin(key);
  body_ += quoted(value);
  return *this;
}

JsonLine& JsonLine::number(std::string_view key, double value) {
  begin(key);
  body_ += std::to_string(value);
  return *this;
}

JsonLine& JsonLine::truth(std::string_view key, bool value) {
  begin(key);
  body_ += value ? "true" : "false";
  return *this;
}

JsonLine& JsonLine::texts(std::string_view key, std::span<const std::string> values) {
  begin(key);
  body_ += '[';
  for (const std::string& value : values) {
    if (body_.back() != '[') body_ += ", ";
    body_ += quoted(value);
  }
  body_ += ']';
  return *this;
}

void JsonLine::print(std::ostream& out) const {
  std::fflush(stdout);
  out << "\n{" << body_ << "}\n" << std::flush;
}

}  // namespace mydev::conform
