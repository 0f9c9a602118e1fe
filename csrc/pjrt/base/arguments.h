// Argument structs of the C API, of which a caller may pass a prefix (c_api/base.h).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "pjrt/base/error.h"

// The end of a field, in bytes from the beginning of its struct.
#define MYDEV_PJRT_END_OF(type, field) (offsetof(type, field) + ::mydev::pjrt::size_of_field(&type::field))

// Whether the caller's struct has the field.
#define MYDEV_PJRT_HAS(args, field) \
  ((args).struct_size >= MYDEV_PJRT_END_OF(std::remove_cvref_t<decltype(args)>, field))

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
// Returns a value of `size` elements for the client, which borrows the name; the value itself is still to be set.
inline PJRT_NamedValue named_value(std::string_view name, PJRT_NamedValue_Type type, size_t size = 1) noexcept {
  PJRT_NamedValue value{.struct_size = sizeof value, .type = type, .value_size = size};
  give_text(name, value.name, value.name_size);
  return value;
}
// Gives the client a list, which it borrows.
template <typename List, typename T>
void give_list(List& list, T*& out_data, size_t& out_size) noexcept {
  out_data = list.data();
  out_size = list.size();
}
// Gives the client bytes that it owns, with their deleter.
template <typename Owner>
void give_bytes(std::string bytes, const char*& out_data, size_t& out_size, Owner*& out_owner,
                void (*&out_deleter)(Owner*)) {
  auto* owned = new std::string(std::move(bytes));
  give_text(*owned, out_data, out_size);
  out_owner = reinterpret_cast<Owner*>(owned);
  out_deleter = [](Owner* owner) { delete reinterpret_cast<std::string*>(owner); };
}

}  // namespace mydev::pjrt
