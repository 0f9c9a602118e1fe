#include "runtime/base/utf8.h"

#include <cstddef>
#include <cstdint>

namespace mydev {

namespace {

// Returns the number of bytes of the character that begins at `at`, or 0 if none does. Over-long forms, surrogates and
// values beyond Unicode are no characters.
size_t character_size(std::string_view text, size_t at) noexcept {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(at);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xC2 && first <= 0xDF   ? 2
                      : first >= 0xE0 && first <= 0xEF ? 3
                      : first >= 0xF0 && first <= 0xF4 ? 4
                                                       : 0;
  if (size == 0 || text.size() - at < size) return 0;
  for (size_t i = at + 1; i < at + size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const uint8_t second = byte(at + 1);
  const bool valid = (first != 0xE0 || second >= 0xA0) && (first != 0xED || second < 0xA0) &&
                     (first != 0xF0 || second >= 0x90) && (first != 0xF4 || second < 0x90);
  return valid ? size : 0;
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  for (size_t at = 0; at < text.size();) {
    const size_t size = character_size(text, at);
    if (size == 0) return false;
    at += size;
  }
  return true;
}

std::string to_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t size = character_size(text, at);
    result += size == 0 ? std::string_view("?") : text.substr(at, size);
    at += size == 0 ? 1 : size;
  }
  return result;
}

}  // namespace mydev
