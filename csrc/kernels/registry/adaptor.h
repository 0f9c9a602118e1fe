// Adaptors: how kernels of XLA's kinds are called with our frame. They are `entry` of the registered copy of a record.
#pragma once

#include <cstdint>
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

// Makes a kernel of one kind callable: sets its entry, and may add traits that its handlers declare. Returns the data
// that the entry finds there, or nullptr. Raises FAILED_PRECONDITION for a handler that this host does not know how to
// call.
using MakeAdaptor = std::unique_ptr<Adaptor> (*)(mydev_kernel& kernel);

// Modules above this one install how kinds are called, each kind once, while the library is loaded: records come later.
// Returns true, for a static initialiser.
bool install_adaptor(int32_t kind, MakeAdaptor make) noexcept;
// Makes the kernel's adaptor; its kind is known and other than FRAME.
std::unique_ptr<Adaptor> make_adaptor(mydev_kernel& kernel);

// XLA's kinds see dense row-major buffers only. Gives the error that names the first buffer that is not; there is one.
mydev_code refuse_strided(const mydev_frame& frame) noexcept;

}  // namespace mydev
