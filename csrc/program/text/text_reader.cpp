#include "program/text/text_reader.h"

#include <algorithm>
#include <charconv>

#include "program/ir/names.h"
#include "runtime/base/status.h"

namespace mydev::program {

namespace {

bool is_hex_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
unsigned hex_value(char c) {
  return static_cast<unsigned>(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
}

}  // namespace

void TextReader::fail_at(size_t position, const std::string& expected) const {
  const std::string_view before = text_.substr(0, position);
  const auto line = 1 + std::ranges::count(before, '\n');
  const size_t column = position - (before.rfind('\n') + 1) + 1;
  size_t end = position;
  while (end < text_.size() && continues_name(text_[end])) ++end;
  if (end == position) end = std::min(position + 1, text_.size());
  const std::string_view found = text_.substr(position, end - position);
  raise(MYDEV_INVALID_ARGUMENT, "line " + std::to_string(line) + ", column " + std::to_string(column) + ": found " +
                                    (found.empty()   ? "the end of the text"
                                     : found == "\n" ? "the end of the line"
                                                     : "'" + std::string(found) + "'") +
                                    ", expected " + expected);
}

void TextReader::fail(const std::string& expected) {
  peek();
  fail_at(position_, expected);
}

void TextReader::fail_before(const std::string& expected) {
  fail_at(token_, expected);
}

char TextReader::peek() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '#') {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++position_;
    } else {
      return c;
    }
  }
  return '\0';
}

void TextReader::begin_token() {
  peek();
  token_ = position_;
}

bool TextReader::take(std::string_view token) {
  begin_token();
  if (!text_.substr(position_).starts_with(token)) return false;
  position_ += token.size();
  return true;
}

void TextReader::expect(std::string_view token) {
  if (!take(token)) fail("'" + std::string(token) + "'");
}

std::string_view TextReader::next_word() {
  size_t end = peek() != '\0' && starts_name(text_[position_]) ? position_ : text_.size();
  if (end == text_.size()) return {};
  while (end < text_.size() && continues_name(text_[end])) ++end;
  return text_.substr(position_, end - position_);
}

bool TextReader::take_word(std::string_view wanted) {
  if (next_word() != wanted) return false;
  begin_token();
  position_ += wanted.size();
  return true;
}

std::string_view TextReader::word(const std::string& expected) {
  const std::string_view found = next_word();
  if (found.empty()) fail(expected);
  begin_token();
  position_ += found.size();
  return found;
}

std::string_view TextReader::run_of(std::string_view others, const std::string& expected) {
  begin_token();
  while (position_ < text_.size() &&
         (continues_name(text_[position_]) || others.find(text_[position_]) != std::string_view::npos)) {
    ++position_;
  }
  if (position_ == token_) fail(expected);
  return text_.substr(token_, position_ - token_);
}

std::string_view TextReader::number_text() const {
  size_t end = position_;
  if (end < text_.size() && text_[end] == '-') ++end;
  const std::string_view rest = text_.substr(end);
  if (rest.starts_with("inf") || rest.starts_with("nan")) return text_.substr(position_, end + 3 - position_);
  if (rest.empty() || !is_digit(rest[0])) return {};
  while (end < text_.size() && (is_digit(text_[end]) || text_[end] == '.' || text_[end] == 'e' ||
                                ((text_[end] == '+' || text_[end] == '-') && text_[end - 1] == 'e'))) {
    ++end;
  }
  return text_.substr(position_, end - position_);
}

bool TextReader::at_number() {
  peek();
  return !number_text().empty();
}

bool TextReader::at_floating() {
  peek();
  return number_text().find_first_of(".en") != std::string_view::npos;
}

int64_t TextReader::integer(const std::string& expected) {
  begin_token();
  const std::string_view digits = number_text();
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || problem != std::errc() || end != digits.data() + digits.size()) fail(expected);
  position_ += digits.size();
  return value;
}

double TextReader::floating(const std::string& expected) {
  begin_token();
  const std::string_view digits = number_text();
  double value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || problem != std::errc() || end != digits.data() + digits.size()) fail(expected);
  position_ += digits.size();
  return value;
}

std::string TextReader::string() {
  expect("\"");
  std::string value;
  while (true) {
    if (position_ >= text_.size() || text_[position_] == '\n') fail_at(position_, "'\"' at the end of the string");
    const char c = text_[position_++];
    if (c == '"') return value;
    if (c != '\\') {
      value += c;
      continue;
    }
    const std::string_view rest = text_.substr(position_);
    if (rest.starts_with('"') || rest.starts_with('\\')) {
      value += rest[0];
      ++position_;
    } else if (rest.size() > 2 && rest[0] == 'x' && is_hex_digit(rest[1]) && is_hex_digit(rest[2])) {
      value += static_cast<char>(hex_value(rest[1]) << 4 | hex_value(rest[2]));
      position_ += 3;
    } else {
      fail_at(position_, "'\"', '\\' or 'x' and two hexadecimal digits behind '\\'");
    }
  }
}

std::vector<std::byte> TextReader::hex() {
  expect("\"");
  std::vector<std::byte> bytes;
  while (position_ + 1 < text_.size() && is_hex_digit(text_[position_]) && is_hex_digit(text_[position_ + 1])) {
    bytes.push_back(static_cast<std::byte>(hex_value(text_[position_]) << 4 | hex_value(text_[position_ + 1])));
    position_ += 2;
  }
  if (!text_.substr(position_).starts_with('"')) fail_at(position_, "two hexadecimal digits, or '\"'");
  ++position_;
  return bytes;
}

void TextReader::end_of_line() {
  const char c = peek();
  if (c != '\n' && c != '\0') fail("the end of the line");
  skip_lines();
}

void TextReader::skip_lines() {
  while (peek() == '\n') ++position_;
}

}  // namespace mydev::program
