// Types of values in the kernels' language: what elements are in memory, and what they are computed as.
//
// Halves and floats of 8 bits are computed in f32. Integers and truth values are computed in i64, and cut off when they
// are stored, which gives what their own arithmetic, which wraps round, gives. Thread-safe.
#pragma once

#include <string>

#include "mydev/custom_call.h"

namespace mydev::device_kernels {

enum class Domain : uint8_t { kF32, kF64, kI64, kC64, kC128 };

inline mydev_dtype dtype_of(const mydev_buffer& buffer) noexcept {
  return static_cast<mydev_dtype>(buffer.dtype);
}
// The type of an element in memory: "u8" of pred. Declines dtypes that the language has no type for.
const char* memory_type(mydev_dtype dtype);
// The domain that elements of the dtype are computed in. Declines likewise.
Domain domain_of(mydev_dtype dtype);
const char* domain_type(Domain domain) noexcept;  // "f32"
bool is_complex(Domain domain) noexcept;
bool is_real(Domain domain) noexcept;
Domain real_part(Domain domain) noexcept;  // of a complex domain; else itself

// A value of the domain, of the element of memory that the text names. A complex one is none of a real domain.
std::string loaded(const std::string& element, mydev_dtype dtype, Domain domain);
// The text that is stored in an element of memory for a value of the domain.
std::string stored(const std::string& value, mydev_dtype dtype, Domain domain);
// A number as a value of the domain.
std::string literal(double number, Domain domain);
std::string literal(int64_t number);  // of the domain kI64

}  // namespace mydev::device_kernels
