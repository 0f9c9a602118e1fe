// The registry of kernels by name. Built-in kernels and users' kernels are the same kind of record.
//
// Built-ins are registered at first use from the table that builtin_kernels.h declares, in the best variant for this
// processor's instruction set. Records live as long as the process. Thread-safe.
#pragma once

#include <string_view>
#include <vector>

#include "mydev/custom_call.h"
#include "runtime/device.h"

namespace mydev {

// Raises ALREADY_EXISTS if another record has the name, INVALID_ARGUMENT for a bad name.
void register_kernel(const mydev_kernel& kernel);
// The host record of that name, or nullptr.
const mydev_kernel* find_kernel(std::string_view name);
// The record to run on `device`: the driver's own, else the host record if the device is host-accessible, else nullptr.
const mydev_kernel* resolve_kernel(const Device& device, const char* name);
std::vector<const mydev_kernel*> all_kernels();  // by name

}  // namespace mydev
