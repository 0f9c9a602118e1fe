// The characters that contracts, expressions and shape rules are made of. ASCII, whatever the locale.
#pragma once

namespace mydev {

constexpr bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n';
}
constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

}  // namespace mydev
