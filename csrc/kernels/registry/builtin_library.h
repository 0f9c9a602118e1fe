// The library of the built-in kernels, which run on the host.
//
// It lies beside this one and is loaded when one of its records is first needed. A process whose device has kernels of
// its own, and no host access, maps neither it nor oneDNN. It is a library of kernels like any other
// (mydev/custom_call.h), except that the registry uses its records where they are. Never unloaded.
#pragma once

#include <span>

#include "mydev/custom_call.h"

namespace mydev {

// The portable kernels, which a device's compiler makes (csrc/device_kernels), are a library of the same form.

// Loads the library, unless it is loaded, and gives its records, in the variants for this processor's instruction set.
// Raises INVALID_ARGUMENT if MYDEV_ISA names an instruction set that is not supported, and FAILED_PRECONDITION if the
// library cannot be loaded. Thread-safe; holds no lock of ours while the loader works, which has one of its own.
std::span<const mydev_kernel* const> load_builtin_kernels();
// The same for the library of the portable kernels, which has one form for all processors.
std::span<const mydev_kernel* const> load_portable_kernels();

}  // namespace mydev
