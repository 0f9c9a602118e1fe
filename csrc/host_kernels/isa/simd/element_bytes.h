// Elements that a kernel moves and does not look into: one type for each size.
#pragma once

#include <cstdint>

#include "host_kernels/isa/isa.h"

namespace mydev::kernels::MYDEV_ISA {
namespace {

template <size_t kBytes>
struct Bytes {
  unsigned char bytes[kBytes];
};

// Calls body.template operator()<Bytes<size>>(); MYDEV_UNIMPLEMENTED for a size that no dtype has.
template <typename Body>
mydev_code visit_element_bytes(int64_t size, const Body& body) {
  switch (size) {
    case 1:
      return body.template operator()<Bytes<1>>();
    case 2:
      return body.template operator()<Bytes<2>>();
    case 4:
      return body.template operator()<Bytes<4>>();
    case 8:
      return body.template operator()<Bytes<8>>();
    case 16:
      return body.template operator()<Bytes<16>>();
    default:
      return MYDEV_UNIMPLEMENTED;
  }
}

}  // namespace
}  // namespace mydev::kernels::MYDEV_ISA
