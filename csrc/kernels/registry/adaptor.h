// Adaptors: how kernels of XLA's kinds are called with our frame. They are `entry` of the registered copy of a record.
#pragma once

#include <memory>

#include "kernels/spec/dense.h"
#include "mydev/custom_call.h"

namespace mydev {

// The data that an adaptor keeps for a kernel; it lives as long as the registered copy.
struct Adaptor {
  Adaptor() = default;
  virtual ~Adaptor() = default;
  Adaptor(const Adaptor&) = delete;
  Adaptor& operator=(const Adaptor&) = delete;
};

// Each makes a kernel of its kinds callable: sets its entry, and may add traits that its handlers declare. Returns the
// data that the entry finds there, or nullptr.
std::unique_ptr<Adaptor> adapt_legacy(mydev_kernel& kernel);  // kernels/custom_call has it
// Raises FAILED_PRECONDITION for a handler that this host does not know how to call.
std::unique_ptr<Adaptor> adapt_typed_ffi(mydev_kernel& kernel);  // kernels/ffi has it

// XLA's kinds see dense row-major buffers only. Gives the error that names the first buffer that is not; there is one.
mydev_code refuse_strided(const mydev_frame& frame) noexcept;

}  // namespace mydev
