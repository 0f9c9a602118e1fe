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

// Makes a kernel of one kind callable: sets its entry, may add traits that its handlers declare, and gives what the
// entry finds there, or nullptr. Raises FAILED_PRECONDITION for a handler that this host does not know how to call.
using MakeAdaptor = std::unique_ptr<Adaptor> (*)(mydev_kernel& kernel);

// Rooms above this one install how kinds are called, each kind once, while the library is loaded: records come later.
// Returns true, for a static initialiser.
bool install_adaptor(int32_t kind, MakeAdaptor make) noexcept;
// Makes the kernel's adaptor; its kind is known and other than FRAME.
std::unique_ptr<Adaptor> make_adaptor(mydev_kernel& kernel);

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
