#include "program/text/text_reader.h"

#include <algorithm>
#include <charconv>

#include "runtime/base/status.h"

namespace mydev::program {

namespace {

// The byte that the text begins with, as two hexadecimal digits; -1 if it does not.
int hex_byte(std::string_view text) {
  const int high = text.size() < 2 ? -1 : hex_digit(text[0]), low = high < 0 ? -1 : hex_digit(text[1]);
  return low < 0 ? -1 : high << 4 | low;
}

}  // namespace

void TextReader::fail_at(size_t position, const std::string& expected) const {
  size_t end = position;
  while (end < text_.size() && continues_name(text_[end])) ++end;
  if (end == position) end = std::min(position + 1, text_.size());
  const std::string_view found = text_.substr(position, end - position);
  raise(MYDEV_INVALID_ARGUMENT, line_and_column(position) + ": found " +
                                    (found.empty()   ? "the end of the text"
                                     : found == "\n" ? "the end of the line"
                                                     : "'" + std::string(found) + "'") +
                                    ", expected " + expected);
}

void TextReader::fail(const std::string& expected) {
  peek();
  fail_at(position_, expected);
}

std::string_view TextReader::run_of(std::string_view others, const std::string& expected) {
  peek();
  const std::string_view rest = this->rest();
  const auto end = std::ranges::find_if_not(
      rest, [&](char c) { return continues_name(c) || others.find(c) != std::string_view::npos; });
  if (end == rest.begin()) fail(expected);
  return advance(static_cast<size_t>(end - rest.begin()));
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

template <typename T>
T TextReader::number(const std::string& expected) {
  peek();
  const std::string_view digits = number_text();
  T value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || problem != std::errc() || end != digits.data() + digits.size()) fail(expected);
  advance(digits.size());
  return value;
}
template int64_t TextReader::number(const std::string& expected);
template double TextReader::number(const std::string& expected);

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
    const std::string_view rest = this->rest();
    if (rest.starts_with('"') || rest.starts_with('\\')) {
      value += rest[0];
      ++position_;
    } else if (rest.starts_with('x') && hex_byte(rest.substr(1)) >= 0) {
      value += static_cast<char>(hex_byte(rest.substr(1)));
      position_ += 3;
    } else {
      fail_at(position_, "'\"', '\\' or 'x' and two hexadecimal digits behind '\\'");
    }
  }
}

std::vector<std::byte> TextReader::hex() {
  expect("\"");
  std::vector<std::byte> bytes;
  for (int byte = 0; (byte = hex_byte(rest())) >= 0; position_ += 2) bytes.push_back(static_cast<std::byte>(byte));
  if (!rest().starts_with('"')) fail_at(position_, "two hexadecimal digits, or '\"'");
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
