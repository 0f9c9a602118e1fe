// Waits that may depend on code of the layer above. A thread that waits for a stream must not hold a lock that a host
// function of that stream needs, such as Python's global lock. Thread-safe.
#pragma once

#include <functional>

#include "runtime/base/api.h"

namespace mydev {

// Calls the function without such a lock. Set once by the Python layer, before any host function is launched.
using BlockingCaller = void (*)(const std::function<void()>& function);
MYDEV_API void set_blocking_caller(BlockingCaller caller) noexcept;

// Calls the function through the caller, if there is one. Exceptions of the function are passed on.
MYDEV_API void call_blocking(const std::function<void()>& function);

}  // namespace mydev
