#include "runtime/base/text_scanner.h"

#include <algorithm>
#include <charconv>

namespace mydev {

char TextScanner::peek() {
  while (position_ < text_.size()) {
    if (spaces_.find(text_[position_]) != std::string_view::npos) {
      ++position_;
    } else if (!comment_.empty() && rest().starts_with(comment_)) {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else {
      return text_[position_];
    }
  }
  return '\0';
}

std::string_view TextScanner::advance(size_t characters) {
  token_ = position_;
  position_ += characters;
  return text_.substr(token_, characters);
}

bool TextScanner::at(std::string_view token) {
  peek();
  return rest().starts_with(token);
}

bool TextScanner::take(std::string_view token) {
  if (!at(token)) return false;
  advance(token.size());
  return true;
}

void TextScanner::expect(std::string_view token) {
  if (!take(token)) fail_expecting("'" + std::string(token) + "'");
}

std::string_view TextScanner::next_word() {
  if (!starts_name(peek())) return {};
  const std::string_view rest = this->rest();
  return rest.substr(0, static_cast<size_t>(std::ranges::find_if_not(rest, continues_name) - rest.begin()));
}

bool TextScanner::take_word(std::string_view wanted) {
  if (next_word() != wanted) return false;
  advance(wanted.size());
  return true;
}

std::string_view TextScanner::word(const std::string& expected) {
  const size_t characters = next_word().size();
  if (characters == 0) fail_expecting(expected);
  return advance(characters);
}

int64_t TextScanner::integer(const std::string& expected) {
  peek();
  const std::string_view rest = this->rest();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error != std::errc()) fail_expecting(expected);
  advance(static_cast<size_t>(end - rest.data()));
  return value;
}

std::string TextScanner::line_and_column(size_t position) const {
  const std::string_view before = text_.substr(0, position);
  const auto line = 1 + std::ranges::count(before, '\n');
  const size_t column = position - (before.rfind('\n') + 1) + 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

}  // namespace mydev
