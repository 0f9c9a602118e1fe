// The output of mydev_conform: one JSON object per line, of strings, numbers, truth values and lists of strings.
#pragma once

#include <ostream>
#include <span>
#include <string>
#include <string_view>

namespace mydev::conform {

class JsonLine {
 public:
  JsonLine& text(std::string_view key, std::string_view value);
  JsonLine& number(std::string_view key, double value);
  JsonLine& truth(std::string_view key, bool value);
  JsonLine& texts(std::string_view key, std::span<const std::string> values);
  // Prints the object on a line of its own, after the end of any unfinished line, and flushes.
  void print(std::ostream& out) const;

 private:
  void begin(std::string_view key);

  std::string body_;
};

}  // namespace mydev::conform
