// Adaptors: how kernels of XLA's kinds are called with our frame. They are `entry` of the registered copy of a record.
#pragma once

#include <cstdint>
#include <memory>

#include "mydev/custom_call.h"

namespace mydev {

// What an adaptor keeps for a kernel; lives as long as the registered copy.
struct Adaptor {
  Adaptor() = default;
  virtual ~Adaptor() = default;
  Adaptor(const Adaptor&) = delete;
  Adaptor& operator=(const Adaptor&) = delete;
};

// Sets the kernel's entry and adds the traits that its handlers declare. Raises FAILED_PRECONDITION for a handler of a
// version that this host does not know, and for one that refuses to say.
std::unique_ptr<Adaptor> adapt_typed_ffi(mydev_kernel& kernel);
// Of one of the legacy kinds.
mydev_kernel_fn legacy_entry(int32_t kind) noexcept;

// XLA's kinds see dense row-major buffers only. Dimensions of size 1 and buffers without elements have any strides.
inline bool is_dense(const mydev_buffer& buffer) noexcept {
  int64_t expected = 1;
  bool dense = true;
  for (int32_t d = buffer.rank - 1; d >= 0; --d) {
    const int64_t size = buffer.sizes[d];
    if (size == 0) return true;
    dense = dense && (size == 1 || buffer.strides[d] == expected);
    expected *= size;
  }
  return dense;
}
// Gives the error that names the first buffer which is not dense; there is one.
mydev_code refuse_strided(const mydev_frame& frame) noexcept;

}  // namespace mydev
