// Errors inside the driver, by the names that all drivers have, and what OpenCL's codes become.
#pragma once

#include <string>

#include "driver_support/errors.h"
#include "opencl_driver/api/opencl_types.h"

namespace mydev::opencl_driver {

using namespace driver_support;  // NOLINT(google-build-using-namespace)

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
