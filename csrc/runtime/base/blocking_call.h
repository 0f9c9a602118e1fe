// Waits that may be for code of the layer above: a thread that waits for a stream must not hold a lock that a host
// function of that stream needs, as Python's global lock. Thread-safe.
#pragma once

#include <functional>

namespace mydev {

// Calls the function without such a lock. Set once by the Python layer, before any host function is launched.
using BlockingCaller = void (*)(const std::function<void()>& function);
void set_blocking_caller(BlockingCaller caller) noexcept;

// Through the caller, if there is one. What the function throws is passed on.
void call_blocking(const std::function<void()>& function);

}  // namespace mydev
