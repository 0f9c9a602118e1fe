// The functions that handlers call begin with these guards: the arguments are big enough, and no exception leaves.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "kernels/ffi/ffi_host.h"
#include "runtime/base/status.h"

namespace mydev::ffi {

// True if the bytes that we are to read and write are there. Bytes behind them may be missing, since the other side's
// version may not have them.
template <typename Args>
bool big_enough(const Args* args, size_t size) {
  return args != nullptr && args->struct_size >= size;
}

inline Error* error(mydev_code code, std::string message) {
  return new Error{code, std::move(message)};  // the handler's
}
inline Error* too_small(const char* what, size_t size) {
  return error(MYDEV_INVALID_ARGUMENT,
               std::string("the arguments of ") + what + " need a struct_size of at least " + std::to_string(size));
}

// A function of the table: no exception leaves it.
template <typename Body>
Error* guarded(const Body& body) noexcept {
  const RaiserBypass bypass;
  try {
    return body();
  } catch (const mydev::Error& caught) {
    return error(caught.code(), caught.what());
  } catch (const std::bad_alloc&) {
    return error(MYDEV_RESOURCE_EXHAUSTED, "out of host memory");
  } catch (const std::exception& caught) {
    return error(MYDEV_INTERNAL, caught.what());
  }
}

}  // namespace mydev::ffi
