// A record as a JSON object, for the command line, for stubs, and for comparing two records.
#pragma once

#include <string>
#include <string_view>

#include "mydev/custom_call.h"

namespace mydev {

const char* kind_name(int32_t kind) noexcept;  // "frame", "typed_ffi", "original_host", ...

// What the record itself says, without the closing brace: where it comes from is put behind. Of a record of full size
// whose signature has been compiled.
std::string open_description(const mydev_kernel& kernel);

// A JSON string, quotes included. Of what is no UTF-8 the bytes above 0x7E are written as \u00XX.
std::string json_string(std::string_view text);

}  // namespace mydev
