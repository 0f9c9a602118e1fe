// Argument structs of the C API, of which a caller may pass a prefix (c_api/base.h).
//
// An entry needs its struct up to one field, which its row in the table names. A caller whose struct ends before that
// is refused with the sizes. An entry checks for optional fields beyond it with MYDEV_PJRT_HAS.
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>

#include "pjrt/base/error.h"

// The end of a field, in bytes from the beginning of its struct.
#define MYDEV_PJRT_END_OF(type, field) (offsetof(type, field) + ::mydev::pjrt::size_of_field(&type::field))

// Whether the caller's struct has the field.
#define MYDEV_PJRT_HAS(args, field) \
  ((args).struct_size >= MYDEV_PJRT_END_OF(std::remove_cvref_t<decltype(args)>, field))

// Puts `function`, which takes the arguments by reference, into a table. `last` is the last field that it needs.
#define MYDEV_PJRT_ENTRY(table, name, function, last)                                    \
  (table).name = [](name##_Args* args) -> PJRT_Error* {                                  \
    return ::mydev::pjrt::guarded([args] {                                               \
      ::mydev::pjrt::check_arguments(#name, args, MYDEV_PJRT_END_OF(name##_Args, last)); \
      return function(*args);                                                            \
    });                                                                                  \
  }

namespace mydev::pjrt {

template <typename Struct, typename Field>
constexpr size_t size_of_field(Field Struct::*) noexcept {
  return sizeof(Field);
}

// `args` begins with its size. Raises INVALID_ARGUMENT for nullptr and for a struct that is too small.
inline void check_arguments(const char* name, const void* args, size_t needed) {
  MYDEV_CHECK(args != nullptr, MYDEV_INVALID_ARGUMENT, name, ": the arguments are NULL");
  const size_t given = *static_cast<const size_t*>(args);
  MYDEV_CHECK(given >= needed, MYDEV_INVALID_ARGUMENT, name, ": struct_size is ", given, ", and at least ", needed,
              " are needed");
}

// Raises INVALID_ARGUMENT for nullptr.
template <typename T>
T& required(T* pointer, const char* what) {
  MYDEV_CHECK(pointer != nullptr, MYDEV_INVALID_ARGUMENT, what, " is NULL");
  return *pointer;
}

// Returns text of the client.
inline std::string_view text_of(const char* data, size_t size) noexcept {
  return data == nullptr ? std::string_view() : std::string_view(data, size);
}
// Gives the client text, which it borrows.
inline void give_text(std::string_view text, const char*& out_data, size_t& out_size) noexcept {
  out_data = text.data();
  out_size = text.size();
}

}  // namespace mydev::pjrt
