// Reading the small languages of this project by character: programs, StableHLO, contracts, expressions, shape rules,
// shardings. A language derives its reader, and says what separates its tokens and how its errors read. ASCII, whatever
// the locale. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/api.h"

namespace mydev {

constexpr bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}
constexpr bool starts_name(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
constexpr bool continues_name(char c) noexcept {
  return starts_name(c) || is_digit(c);
}
// The value of a hexadecimal digit; -1 for another character.
constexpr int hex_digit(char c) noexcept {
  if (is_digit(c)) return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

class MYDEV_API TextScanner {
 public:
  // Tokens are separated by these characters, and by comments: from `comment` to the end of the line. "": there are
  // none.
  explicit TextScanner(std::string_view text, std::string_view spaces = " \t\n", std::string_view comment = {})
      : text_(text), spaces_(spaces), comment_(comment) {}
  TextScanner(const TextScanner&) = delete;
  TextScanner& operator=(const TextScanner&) = delete;
  virtual ~TextScanner() = default;

  // Raises INVALID_ARGUMENT. `expected`: what should stand here instead, "')'" or "a number".
  [[noreturn]] virtual void fail_expecting(const std::string& expected) = 0;

  // Returns the first character of the next token; '\0' at the end of the text.
  char peek();
  bool at_end() { return peek() == '\0'; }
  bool at(std::string_view token);
  bool take(std::string_view token);
  void expect(std::string_view token);
  // Returns the next word, which stays; "" if there is none. A word is a letter or '_', then also digits.
  virtual std::string_view next_word();
  bool take_word(std::string_view wanted);
  std::string_view word(const std::string& expected);
  // A decimal number with or without a sign.
  int64_t integer(const std::string& expected);

 protected:
  // Goes past so many characters of the token that comes next, and returns them.
  std::string_view advance(size_t characters);
  std::string_view rest() const { return text_.substr(position_); }
  // "line 4, column 9" of a position.
  std::string line_and_column(size_t position) const;

  const std::string_view text_;
  size_t position_ = 0;
  size_t token_ = 0;  // where the last token began that was taken

 private:
  const std::string_view spaces_, comment_;
};

}  // namespace mydev
