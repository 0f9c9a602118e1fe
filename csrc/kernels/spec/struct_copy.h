// Reading structs that another version of custom_call.h may have written: a copy in full size, in which fields that the
// writer did not know are zero.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "runtime/base/status.h"

namespace mydev {

// `minimum`: the size up to the end of the last field that has always been there. Raises INVALID_ARGUMENT for less.
template <typename T>
T copy_struct(const T* theirs, size_t minimum, const char* what) {
  MYDEV_CHECK(theirs != nullptr, MYDEV_INVALID_ARGUMENT, what, " is NULL");
  MYDEV_CHECK(theirs->struct_size >= minimum, MYDEV_INVALID_ARGUMENT, what, " has struct_size ", theirs->struct_size,
              ", the least is ", minimum, "; set it to sizeof");
  T copy{};
  std::memcpy(&copy, theirs, std::min(theirs->struct_size, sizeof(T)));
  copy.struct_size = sizeof(T);
  return copy;
}

#define MYDEV_END_OF(type, field) (offsetof(type, field) + sizeof(type::field))

}  // namespace mydev
