// Element types of the C API, and shapes: a type and sizes, dense and row-major.
//
// Types that kernels do not know (mydev_dtype INVALID) can still be held, copied and read back; types smaller than a
// byte have a byte for each element. Shapes do not change, and buffers share them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mydev/custom_call.h"
#include "pjrt/c_api/buffer.h"

namespace mydev::pjrt {

struct ElementType {
  PJRT_Buffer_Type type;
  const char* name;   // XLA's
  uint32_t bytes;     // of an element
  mydev_dtype dtype;  // what kernels call it
};

// Raises INVALID_ARGUMENT for a number that is no type.
const ElementType& element_type(PJRT_Buffer_Type type);
const ElementType& element_type(mydev_dtype dtype);
const ElementType& element_type(std::string_view name);  // XLA's

struct Shape {
  const ElementType* type;
  std::vector<int64_t> sizes;
  std::vector<int64_t> minor_to_major;  // n-1, ..., 0
  uint64_t bytes;
};
using SharedShape = std::shared_ptr<const Shape>;

// Raises INVALID_ARGUMENT for a negative size, and where the bytes do not fit into 63 bits.
SharedShape make_shape(const ElementType& type, std::span<const int64_t> sizes);
std::string describe(const Shape& shape);  // "f32[2,3]"

}  // namespace mydev::pjrt
