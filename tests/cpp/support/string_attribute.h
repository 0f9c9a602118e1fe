// An attribute that is a string.
#pragma once

#include <string_view>

#include "mydev/custom_call.h"

namespace mydev {

// The text is the caller's.
inline mydev_attribute string_attribute(const char* name, std::string_view text) {
  mydev_attribute attribute{name, MYDEV_ATTRIBUTE_STRING, 0, static_cast<uint32_t>(text.size()), {}};
  attribute.value.bytes = text.data();
  return attribute;
}

}  // namespace mydev
