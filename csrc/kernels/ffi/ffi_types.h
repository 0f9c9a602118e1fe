// Types that handlers share with the host by a number: types of their states, and of user data. They are registered
// once per process and never taken back. Thread-safe.
#pragma once

#include <memory>
#include <string_view>

#include "kernels/ffi/ffi_host.h"

namespace mydev::ffi {

// A type, and the function that deletes its objects; found is false for a type that nobody registered.
struct RegisteredType {
  bool found;
  void (*deleter)(void* object);
};
RegisteredType find_type(int64_t type_id);
// Returns the data that set_user_data was given; nullptr if nothing.
void* find_user_data(int64_t type_id);

}  // namespace mydev::ffi
