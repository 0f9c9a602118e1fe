// Types that handlers share with the host by a number: of their states, and of user data. Registered once per process,
// never taken back. Thread-safe.
#pragma once

#include <memory>
#include <string_view>

#include "kernels/ffi/ffi_host.h"

namespace mydev::ffi {

// What deletes objects of the type; found is false for a type that nobody registered.
struct RegisteredType {
  bool found;
  void (*deleter)(void* object);
};
RegisteredType find_type(int64_t type_id);
// What set_user_data gave; nullptr if nothing.
void* find_user_data(int64_t type_id);

}  // namespace mydev::ffi
