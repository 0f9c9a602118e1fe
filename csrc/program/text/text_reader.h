// The characters of a program's text, and the position of the reader. Not thread-safe: a reader belongs to one call of
// parse().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/text_scanner.h"

namespace mydev::program {

// The end of a line is a token, '\n'.
class TextReader final : public TextScanner {
 public:
  explicit TextReader(std::string_view text) : TextScanner(text, " \t\r", "#") {}

  // Raises INVALID_ARGUMENT: "line 4, column 9: found 'w2', expected the name of a slot".
  [[noreturn]] void fail(const std::string& expected);
  // Raises the same for the token that was read last.
  [[noreturn]] void fail_before(const std::string& expected) { fail_at(token_, expected); }
  [[noreturn]] void fail_expecting(const std::string& expected) override { fail(expected); }

  // Reads characters as long as they are letters, digits or among `others`.
  std::string_view run_of(std::string_view others, const std::string& expected);

  bool at_number();
  int64_t integer(const std::string& expected) { return number<int64_t>(expected); }
  double floating(const std::string& expected) { return number<double>(expected); }
  // True at a number with a point or an exponent, or at nan or inf.
  bool at_floating();
  std::string string();
  std::vector<std::byte> hex();  // after the word
  void end_of_line();
  void skip_lines();  // that hold nothing

 private:
  template <typename T>
  T number(const std::string& expected);
  std::string_view number_text() const;
  [[noreturn]] void fail_at(size_t position, const std::string& expected) const;
};

}  // namespace mydev::program
