// The registry of kernels by name. Built-in kernels and users' kernels are the same kind of record.
//
// Built-ins have names that begin with "mydev.". They are in a library that is loaded when one is first needed, and
// stay where they are (builtin_library.h). Other records are copied in full size; fields that the writer did not know
// are zero. For kinds other than FRAME, `entry` is the adaptor: whoever launches sees no difference between kinds.
// Copies are never freed: a launch may be under way when a name goes. Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/registry/description.h"
#include "kernels/registry/launchable.h"
#include "mydev/custom_call.h"
#include "runtime/base/api.h"
#include "runtime/driver/device.h"

namespace mydev {

// The file and the library that a record comes from, for messages and for listing.
struct KernelOrigin {
  std::string file;     // path of the library; "" for built-ins and for functions registered one by one
  std::string library;  // its name and version; "built-in", "this process", "register_ffi_target"
};

// Raises ALREADY_EXISTS, naming both origins, if another record has the name; the same functions and metadata again are
// accepted. Raises INVALID_ARGUMENT for a bad name, kind, signature, shape rule or function. Returns the copy.
MYDEV_API const mydev_kernel* register_kernel(const mydev_kernel& kernel, const KernelOrigin& origin);
MYDEV_API void register_kernel(const mydev_kernel& kernel);  // of this process
// Registers all of them, or none if one is refused. With `replace`, they take the place of those that came from the
// same file; kernels of that file that are not among them are removed.
MYDEV_API void register_kernels(std::span<const mydev_kernel* const> kernels, const KernelOrigin& origin,
                                bool replace = false);
// Removes a user's kernel; launches under way are not disturbed. Raises NOT_FOUND, and FAILED_PRECONDITION for a
// built-in.
MYDEV_API void unregister_kernel(std::string_view name);

// The host record of that name, or nullptr. Loads the library whose manifest has the name; see kernel_library.h.
MYDEV_API const mydev_kernel* find_kernel(std::string_view name);
// The portable record of that name, for devices whose compiler makes their kernels; nullptr if there is none, or the
// device needs none: it has no compiler that knows the kernels' language, or the host computes on its memory.
MYDEV_API const mydev_kernel* find_portable_kernel(const Device& device, std::string_view name);
// Returns what runs the name on `device` (launchable.h): the driver's own record, the portable one and the registry's,
// each if the device can run it; nullptr if there is none.
MYDEV_API const Launchable* resolve_kernel(const Device& device, const char* name);
// The same for a step of a program, which cannot fall back. On a device whose memory the host does not reach, a
// built-in kernel's last candidate is the host's record on copies (kernels/launch/staged_launch.h).
MYDEV_API const Launchable* resolve_step(const Device& device, const char* name);
// The driver's own record alone, or nullptr. For operators that have something faster than the host's record.
MYDEV_API const Launchable* resolve_drivers_kernel(const Device& device, const char* name);
MYDEV_API std::vector<const mydev_kernel*> all_kernels();  // by name
// The records that the device's driver lists (list_kernels), by name; none if it lists none. Raises INVALID_ARGUMENT
// for a record without a name, or one that find_kernel does not give, and the driver's failure.
MYDEV_API std::vector<const mydev_kernel*> drivers_kernels(const Device& device);
std::vector<std::string> kernel_names_of(const std::string& file);
// Raises NOT_FOUND.
MYDEV_API KernelOrigin kernel_origin(std::string_view name);
MYDEV_API std::string origin_text(const KernelOrigin& origin);  // "library 1.0 (/path/library.so)"
// Everything that the record says, a dictionary: name, kind, platform, traits, stages, signature, schema, shapes,
// operator, gradient, differentiable, batching, doc, contract, library, file. Raises NOT_FOUND.
MYDEV_API Description describe_kernel(std::string_view name);
// The same of a record that the device's driver runs; its "limits" are the dtypes that it takes, and the most
// dimensions, of all buffers and of single ones.
MYDEV_API Description describe_drivers_kernel(const Device& device, const mydev_kernel& kernel);
// Grows whenever a name comes, goes or is given to another record: what was looked up before may be stale.
MYDEV_API uint64_t registry_generation() noexcept;

}  // namespace mydev
