// Errors of the driver: raised as a code and a message inside, returned as a code by its entries. last_error gives the
// message of each thread's latest.
#pragma once

#include <exception>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>

#include "mydev/driver.h"
#include "opencl_driver/api/opencl_types.h"

namespace mydev::opencl_driver {

class DriverError : public std::runtime_error {
 public:
  DriverError(mydev_code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  mydev_code code() const noexcept { return code_; }

 private:
  mydev_code code_;
};

template <typename... Parts>
[[noreturn]] [[gnu::cold]] [[gnu::noinline]] void raise(mydev_code code, const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw DriverError(code, text.str());
}

// Raises what the parts make, unless the condition holds.
template <typename... Parts>
void require(bool condition, mydev_code code, const Parts&... parts) {
  if (!condition) [[unlikely]] {
    raise(code, parts...);
  }
}

// "CL_OUT_OF_RESOURCES (-5)", or the number alone.
std::string cl_code_name(cl_int code);
mydev_code code_of(cl_int code);  // in the runtime's terms

// Raises unless the OpenCL function of that name succeeded.
inline void check_cl(cl_int code, const char* function) {
  if (code != CL_SUCCESS) [[unlikely]] {
    raise(code_of(code), function, " failed: ", cl_code_name(code));
  }
}

// Keeps the message of this thread's latest failure; returns the code.
mydev_code fail(mydev_code code, const char* message);
const char* last_error();

// Runs body and returns its code, since nothing is thrown across the C boundary.
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

}  // namespace mydev::opencl_driver
