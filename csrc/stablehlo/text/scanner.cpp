#include "stablehlo/text/scanner.h"

#include <algorithm>

#include "runtime/base/status.h"

namespace mydev::stablehlo {

namespace {

constexpr size_t kMostQuoted = 30;  // characters of what was found, in a message

bool is_word_character(char c) {
  return continues_name(c) || c == '.' || c == '$';
}

}  // namespace

void ModuleScanner::fail(const std::string& expected) {
  std::string found = "the end of the text";
  if (peek() != '\0') {
    std::string_view rest = this->rest();
    rest = rest.substr(0, std::min(rest.find('\n'), kMostQuoted));
    found = "'" + std::string(rest) + "'";
  }
  fail_about("expected " + expected + ", found " + found);
}

void ModuleScanner::fail_about(const std::string& what) {
  raise(MYDEV_INVALID_ARGUMENT, "StableHLO text, " + line_and_column(position_) + ": " + what);
}

std::string_view ModuleScanner::next_word() {
  peek();
  size_t end = position_;
  while (end < text_.size()) {
    const bool is_dash = text_[end] == '-' && end > position_ && text_.substr(end, 2) != "->";
    if (!is_word_character(text_[end]) && !is_dash) break;
    ++end;
  }
  return text_.substr(position_, end - position_);
}

bool ModuleScanner::at_number() {
  const char c = peek();
  return is_digit(c) || (c == '-' && position_ + 1 < text_.size() && is_digit(text_[position_ + 1]));
}

std::string_view ModuleScanner::number() {
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

std::string ModuleScanner::string() {
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

std::string_view ModuleScanner::bracketed() {
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

std::string_view ModuleScanner::value_name() {
  if (peek() != '%') fail("a value");
  const size_t begin = position_;
  ++position_;
  while (position_ < text_.size() && (is_word_character(text_[position_]) || text_[position_] == '#')) ++position_;
  return text_.substr(begin, position_ - begin);
}

std::string ModuleScanner::symbol() {
  expect("@");
  return position_ < text_.size() && text_[position_] == '"' ? string() : std::string(word("a name"));
}

}  // namespace mydev::stablehlo
