// The characters of a program's text, and the position of the reader. Not thread-safe: a reader belongs to one call of
// parse().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mydev::program {

class TextReader {
 public:
  explicit TextReader(std::string_view text) : text_(text) {}

  // Raises INVALID_ARGUMENT: "line 4, column 9: found 'w2', expected the name of a slot".
  [[noreturn]] void fail(const std::string& expected);
  // Raises the same for the token that was read last.
  [[noreturn]] void fail_before(const std::string& expected);

  // Returns the next character, '\0' at the end of the text, '\n' at the end of a line. Skips spaces and comments.
  char peek();
  bool take(std::string_view token);
  void expect(std::string_view token);
  // Returns the next word if it looks like a name, else "". Does not consume it.
  std::string_view next_word();
  bool take_word(std::string_view wanted);
  std::string_view word(const std::string& expected);
  // Reads characters as long as they are letters, digits or among `others`.
  std::string_view run_of(std::string_view others, const std::string& expected);

  bool at_number();
  int64_t integer(const std::string& expected);
  double floating(const std::string& expected);
  // True at a number with a point or an exponent, or at nan or inf.
  bool at_floating();
  std::string string();
  std::vector<std::byte> hex();  // after the word
  void end_of_line();
  void skip_lines();  // that hold nothing

 private:
  void begin_token();
  std::string_view number_text() const;
  [[noreturn]] void fail_at(size_t position, const std::string& expected) const;

  std::string_view text_;
  size_t position_ = 0, token_ = 0;
};

}  // namespace mydev::program
