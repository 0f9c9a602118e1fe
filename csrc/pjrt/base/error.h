// Errors on both sides of the C API: a Failure is a value that travels with asynchronous work, a PJRT_Error is an
// object that the client owns.
//
// Nothing is thrown across the C API: entries run in guarded(), which turns what they throw into a PJRT_Error. Codes
// are the 16 canonical ones, which have the same numbers on both sides.
#pragma once

#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include "pjrt/c_api/base.h"
#include "runtime/base/status.h"

struct PJRT_Error {
  mydev_code code;
  std::string message;
};

namespace mydev::pjrt {

struct Failure {
  mydev_code code = MYDEV_OK;
  std::string message;
  bool failed() const noexcept { return code != MYDEV_OK; }
};

// Returns the failure of the exception that is being handled.
Failure current_failure() noexcept;
// Runs body() and returns what it throws as a failure; none if it throws nothing.
template <typename Body>
Failure failure_of(const Body& body) noexcept {
  const RaiserBypass bypass;
  try {
    body();
    return {};
  } catch (...) {
    return current_failure();
  }
}

// Returns nullptr for no failure. The receiver destroys the error.
PJRT_Error* to_error(Failure failure) noexcept;

// Runs the body of an entry, which returns nothing or an error of its own.
template <typename Body>
PJRT_Error* guarded(const Body& body) noexcept {
  const RaiserBypass bypass;
  try {
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
      return nullptr;
    } else {
      return body();
    }
  } catch (...) {
    return to_error(current_failure());
  }
}

}  // namespace mydev::pjrt
