// Names of programs and slots: identifiers that are no words of the text (text/text.h).
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "runtime/base/text_scanner.h"
#include "runtime/frame/dtype.h"

namespace mydev::program {

constexpr bool is_identifier(std::string_view text) noexcept {
  return !text.empty() && starts_name(text[0]) && std::ranges::all_of(text, continues_name);
}

// INVALID where it is no element type.
constexpr mydev_dtype dtype_named(std::string_view word) noexcept {
  for (const DtypeRow& row : kDtypes) {
    if (row.name == word) return row.dtype;
  }
  return MYDEV_DTYPE_INVALID;
}

constexpr bool is_word_of_text(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 23> kWords = {"program", "constant", "temporary", "donated", "none",  "launch",
                                                       "copy",    "fill",     "host",      "call",    "fused", "repeat",
                                                       "while",   "if",       "then",      "else",    "lane",  "after",
                                                       "hex",     "true",     "false",     "nan",     "by"};
  return std::ranges::find(kWords, name) != kWords.end() || name == "inf" || dtype_named(name) != MYDEV_DTYPE_INVALID;
}

constexpr bool is_name(std::string_view name) noexcept {
  return is_identifier(name) && !is_word_of_text(name);
}

}  // namespace mydev::program
