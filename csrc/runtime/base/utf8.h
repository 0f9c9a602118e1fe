// Text from libraries and drivers may hold any bytes, but the text of a Python exception has to be UTF-8.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/api.h"

namespace mydev {

MYDEV_API bool is_utf8(std::string_view text) noexcept;
// The text with a question mark for each byte that belongs to no character.
MYDEV_API std::string to_utf8(std::string_view text);

}  // namespace mydev
