// Operators that a graph compiled for the host leaves to the device.
//
// For an operator, say aten::mm, there is a device call mydev_call::aten_mm_default with the same schema, for CPU
// tensors: inside a HostScope it runs the operator on device tensors over the same memory, and returns CPU aliases of
// what that gives. Its fake kernel is Python's (torch_mydev/compile/device_call.py). Thread-safe.
#pragma once

#include <string>

#include "runtime/base/api.h"

namespace mydev {

// Makes the device call, once per schema; returns its name. Raises if there is no such operator.
MYDEV_API std::string define_device_call(const std::string& name, const std::string& overload);

}  // namespace mydev
