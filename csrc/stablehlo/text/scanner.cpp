#include "stablehlo/text/scanner.h"

#include <algorithm>
#include <charconv>

#include "runtime/base/status.h"

namespace mydev::stablehlo {

namespace {

constexpr size_t kMostQuoted = 30;  // characters of what was found, in a message

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_word_character(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '$';
}

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void TextScanner::fail(const std::string& expected) {
  std::string found = "the end of the text";
  if (peek() != '\0') {
    std::string_view rest = text_.substr(position_);
    rest = rest.substr(0, std::min(rest.find('\n'), kMostQuoted));
    found = "'" + std::string(rest) + "'";
  }
  fail_about("expected " + expected + ", found " + found);
}

void TextScanner::fail_about(const std::string& what) {
  const std::string_view before = text_.substr(0, position_);
  const auto line = 1 + std::ranges::count(before, '\n');
  const size_t begin = before.rfind('\n');
  const size_t column = begin == std::string_view::npos ? position_ + 1 : position_ - begin;
  mydev::detail::raise_formatted(MYDEV_INVALID_ARGUMENT, "StableHLO text, line ", line, ", column ", column, ": ",
                                 what);
}

char TextScanner::peek() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '/' && text_.substr(position_, 2) == "//") {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      ++position_;
    } else {
      return c;
    }
  }
  return '\0';
}

bool TextScanner::take(std::string_view token) {
  peek();
  if (!text_.substr(position_).starts_with(token)) return false;
  position_ += token.size();
  return true;
}

void TextScanner::expect(std::string_view token) {
  if (!take(token)) fail("'" + std::string(token) + "'");
}

std::string_view TextScanner::next_word() {
  peek();
  size_t end = position_;
  while (end < text_.size()) {
    const bool is_dash = text_[end] == '-' && end > position_ && text_.substr(end, 2) != "->";
    if (!is_word_character(text_[end]) && !is_dash) break;
    ++end;
  }
  return text_.substr(position_, end - position_);
}

bool TextScanner::take_word(std::string_view wanted) {
  if (next_word() != wanted) return false;
  position_ += wanted.size();
  return true;
}

std::string_view TextScanner::word(const std::string& expected) {
  const std::string_view found = next_word();
  if (found.empty()) fail(expected);
  position_ += found.size();
  return found;
}

int64_t TextScanner::integer(const std::string& expected) {
  peek();
  int64_t value = 0;
  const char* begin = text_.data() + position_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (error != std::errc()) fail(expected);
  position_ += static_cast<size_t>(end - begin);
  return value;
}

bool TextScanner::at_number() {
  const char c = peek();
  return is_digit(c) || (c == '-' && position_ + 1 < text_.size() && is_digit(text_[position_ + 1]));
}

std::string_view TextScanner::number() {
  if (!at_number()) fail("a number");
  const std::string_view rest = text_.substr(position_);
  size_t end = 1;
  const bool is_hex = rest.starts_with("0x");
  while (end < rest.size()) {
    const bool is_exponent_sign =
        !is_hex && (rest[end] == '-' || rest[end] == '+') && (rest[end - 1] == 'e' || rest[end - 1] == 'E');
    const bool is_part = is_hex ? (end == 1 || hex_digit(rest[end]) >= 0)
                                : is_digit(rest[end]) || rest[end] == '.' || rest[end] == 'e' || rest[end] == 'E';
    if (!is_part && !is_exponent_sign) break;
    ++end;
  }
  position_ += end;
  return rest.substr(0, end);
}

std::string TextScanner::string() {
  if (peek() != '"') fail("a string");
  std::string value;
  for (++position_; position_ < text_.size() && text_[position_] != '"'; ++position_) {
    if (text_[position_] != '\\') {
      value += text_[position_];
      continue;
    }
    const std::string_view escape = text_.substr(position_ + 1, 2);
    if (escape.size() == 2 && hex_digit(escape[0]) >= 0 && hex_digit(escape[1]) >= 0) {
      value += static_cast<char>(hex_digit(escape[0]) * 16 + hex_digit(escape[1]));
      position_ += 2;
    } else if (!escape.empty() && std::string_view("\"\\nt").find(escape[0]) != std::string_view::npos) {
      value += escape[0] == 'n' ? '\n' : escape[0] == 't' ? '\t' : escape[0];
      ++position_;
    } else {
      fail("an escape of a string: \\\", \\\\, \\n, \\t or two hexadecimal digits");
    }
  }
  if (position_ >= text_.size()) fail("the end of a string");
  ++position_;
  return value;
}

std::string_view TextScanner::bracketed() {
  expect("<");
  const size_t begin = position_;
  for (int depth = 1; position_ < text_.size(); ++position_) {
    const char c = text_[position_];
    if (c == '"') {
      string();
      --position_;
    } else if (c == '<') {
      ++depth;
    } else if (c == '>' && text_[position_ - 1] != '-' && --depth == 0) {
      return text_.substr(begin, position_++ - begin);
    }
  }
  fail("'>'");
}

std::string_view TextScanner::value_name() {
  if (peek() != '%') fail("a value");
  const size_t begin = position_;
  ++position_;
  while (position_ < text_.size() && (is_word_character(text_[position_]) || text_[position_] == '#')) ++position_;
  return text_.substr(begin, position_ - begin);
}

std::string TextScanner::symbol() {
  expect("@");
  return position_ < text_.size() && text_[position_] == '"' ? string() : std::string(word("a name"));
}

}  // namespace mydev::stablehlo
