// The characters of a program's text, and where the reader stands. Not thread-safe: of one call of read_text().
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/text_scanner.h"

namespace mydev::stablehlo {

// The number that a whole text stands for, as std::from_chars reads it.
template <typename T, typename... Base>
std::optional<T> number_of(std::string_view text, Base... base) {
  T value{};
  const char* begin = text.data();
  const char* end = begin + text.size();
  const std::from_chars_result parsed = std::from_chars(begin, end, value, base...);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

class ModuleScanner final : public TextScanner {
 public:
  explicit ModuleScanner(std::string_view text) : TextScanner(text, " \t\n\r", "//") {}

  // Raises INVALID_ARGUMENT: "StableHLO text, line 4, column 9: expected a type, found 'x'".
  [[noreturn]] void fail(const std::string& expected);
  // The same for a text that is well written and wrong: "line 4, column 9: there is no value %x".
  [[noreturn]] void fail_about(const std::string& what);
  [[noreturn]] void fail_expecting(const std::string& expected) override { fail(expected); }

  // A word like a name: letters, digits, '_', '.', '$' and '-' that is not the beginning of "->"; "" if there is none.
  std::string_view next_word() override;
  bool at_number();
  // The characters of a number of any form: "-1.5e-3", "0xFF80".
  std::string_view number();
  // A string in double quotes, without its escapes.
  std::string string();
  // The text between the bracket '<' that comes next and the one that closes it.
  std::string_view bracketed();
  // "%name" or "%name#1" as it stands; '@name' without the at sign, '@"quoted"' likewise.
  std::string_view value_name();
  std::string symbol();
};

}  // namespace mydev::stablehlo
