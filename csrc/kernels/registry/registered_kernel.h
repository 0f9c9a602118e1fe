// The registry's copy of a record, with all structs in full size and, for kinds other than FRAME, the adaptor as its
// `entry`. An adaptor finds its own data by frame->kernel, which is such a copy. Written before it is registered, then
// only read; never freed.
#pragma once

#include <memory>

#include "kernels/registry/adaptor.h"
#include "kernels/registry/kernel_registry.h"
#include "kernels/spec/signature.h"
#include "runtime/base/api.h"

namespace mydev {

struct MYDEV_API RegisteredKernel : mydev_kernel {
  // Checks the record and makes its adaptor. Raises what register_kernel raises.
  RegisteredKernel(const mydev_kernel& kernel, const KernelOrigin& from);
  RegisteredKernel(const RegisteredKernel&) = delete;
  RegisteredKernel& operator=(const RegisteredKernel&) = delete;

  KernelOrigin origin;
  std::unique_ptr<CompiledSignature> compiled;
  mydev_gradient gradient_value{};
  std::unique_ptr<Adaptor> adaptor;
};

// All kernels that are registered now, by name. Loads nothing: neither the built-in kernels nor a user's library.
MYDEV_API std::vector<const mydev_kernel*> registered_kernels();

bool valid_kernel_name(const char* name) noexcept;
// The same functions, signature and other metadata.
bool same_record(const mydev_kernel& a, const mydev_kernel& b);

}  // namespace mydev
