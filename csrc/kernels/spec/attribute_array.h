// The entries of an attribute that is an array of some element type.
#pragma once

#include <cstdint>
#include <span>

#include "mydev/custom_call.h"

namespace mydev {

// An entry of an array of PRED, whatever its byte.
struct Predicate {
  uint8_t byte;
  explicit operator bool() const noexcept { return byte != 0; }
};

// Calls visit with a span of the entries: of integers, float, double or Predicate. For dtypes that a signature takes.
template <typename Visit>
auto visit_array(const mydev_attribute& attribute, const Visit& visit) {
  const auto as = [&]<typename Entry>(Entry /*type*/) {
    return visit(std::span(static_cast<const Entry*>(attribute.value.data), attribute.count));
  };
  switch (attribute.dtype) {
    case MYDEV_PRED:
      return as(Predicate{});
    case MYDEV_S8:
      return as(int8_t{});
    case MYDEV_S16:
      return as(int16_t{});
    case MYDEV_S32:
      return as(int32_t{});
    case MYDEV_S64:
      return as(int64_t{});
    case MYDEV_U8:
      return as(uint8_t{});
    case MYDEV_U16:
      return as(uint16_t{});
    case MYDEV_U32:
      return as(uint32_t{});
    case MYDEV_U64:
      return as(uint64_t{});
    case MYDEV_F32:
      return as(float{});
    default:
      return as(double{});
  }
}

}  // namespace mydev
