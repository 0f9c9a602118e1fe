#include "conform/json_line.h"

#include <cstdio>

#include "runtime/base/json.h"
#include "runtime/base/utf8.h"

namespace mydev::conform {

void JsonLine::begin(std::string_view key) {
  if (!body_.empty()) body_ += ", ";
  append_json(body_, key);
  body_ += ": ";
}

JsonLine& JsonLine::text(std::string_view key, std::string_view value) {
  begin(key);
  append_json(body_, to_utf8(value));
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
    append_json(body_, to_utf8(value));
  }
  body_ += ']';
  return *this;
}

void JsonLine::print(std::ostream& out) const {
  std::fflush(stdout);
  out << "\n{" << body_ << "}\n" << std::flush;
}

}  // namespace mydev::conform
