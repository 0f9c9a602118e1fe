// Errors of a driver: raised as a code and a message inside, returned as a code by its entries. last_error gives the
// message of each thread's latest. Every driver has a copy of its own.
#pragma once

#include <exception>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>

#include "mydev/driver.h"

namespace mydev::driver_support {

class DriverError : public std::runtime_error {
 public:
  DriverError(mydev_code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  mydev_code code() const noexcept { return code_; }

 private:
  mydev_code code_;
};

template <typename... Args>
[[noreturn]] [[gnu::cold]] [[gnu::noinline]] void raise(mydev_code code, const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  throw DriverError(code, out.str());
}

// Raises the message that the arguments make, unless the condition holds.
template <typename... Args>
void require(bool condition, mydev_code code, const Args&... args) {
  if (!condition) [[unlikely]] {
    raise(code, args...);
  }
}

// Keeps the message of this thread's latest failure; returns the code.
mydev_code fail(mydev_code code, const char* message);
const char* last_error();

// Runs body and turns what it raises into a code: nothing is thrown across the C boundary.
template <typename Body>
mydev_code run_checked(const Body& body) noexcept {
  try {
    body();
    return MYDEV_OK;
  } catch (const DriverError& error) {
    return fail(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(MYDEV_RESOURCE_EXHAUSTED, "out of host memory");
  } catch (const std::exception& error) {
    return fail(MYDEV_INTERNAL, error.what());
  }
}

}  // namespace mydev::driver_support
