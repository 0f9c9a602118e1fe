// Errors inside the driver, by the names that all drivers have, and what OpenCL's codes become.
#pragma once

#include <string>

#include "driver_support/errors.h"
#include "opencl_driver/api/opencl_types.h"

namespace mydev::opencl_driver {

using driver_support::DriverError;
using driver_support::fail;
using driver_support::last_error;
using driver_support::raise;
using driver_support::require;
using driver_support::run_checked;

// "CL_OUT_OF_RESOURCES (-5)", or the number alone.
std::string cl_code_name(cl_int code);
mydev_code code_of(cl_int code);  // in the runtime's terms

// Raises unless the OpenCL function of that name succeeded.
inline void check_cl(cl_int code, const char* function) {
  if (code != CL_SUCCESS) [[unlikely]] {
    raise(code_of(code), function, " failed: ", cl_code_name(code));
  }
}

}  // namespace mydev::opencl_driver
