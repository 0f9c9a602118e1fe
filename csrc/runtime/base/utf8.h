// Text that libraries and drivers give: it may be anything, and what becomes an exception of Python has to be UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace mydev {

bool is_utf8(std::string_view text) noexcept;
// The text with a question mark for each byte that belongs to no character.
std::string to_utf8(std::string_view text);

}  // namespace mydev
