// Errors of the torch-free layers as PyTorch's exceptions.
#pragma once

#include "runtime/base/api.h"

namespace mydev {

// While one of these lives on a thread, errors raised there have the types that users of custom calls expect: an
// invalid argument is a ValueError, and all but unimplemented and out of memory are a RuntimeError. Errors that their
// kernels return have these types wherever they are raised (ErrorOwner).
class MYDEV_API CustomCallErrors {
 public:
  CustomCallErrors() noexcept { ++depth_; }
  ~CustomCallErrors() { --depth_; }
  CustomCallErrors(const CustomCallErrors&) = delete;
  CustomCallErrors& operator=(const CustomCallErrors&) = delete;
  static bool active() noexcept;

 private:
  static constinit thread_local int depth_;
};

}  // namespace mydev
