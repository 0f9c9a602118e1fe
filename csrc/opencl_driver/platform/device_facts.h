// Facts that a device tells about itself.
#pragma once

#include <string>
#include <string_view>

#include "mydev/driver.h"
#include "opencl_driver/api/opencl_api.h"

namespace mydev::opencl_driver {

// A text of the device; "" where it has none.
std::string device_text(cl_device_id device, cl_uint what);

// A number, or a bit field, of the device; 0 where it has none, as an older version of OpenCL.
template <typename T>
T device_number(cl_device_id device, cl_uint what) {
  T value{};
  return cl().clGetDeviceInfo(device, what, sizeof(value), &value, nullptr) == CL_SUCCESS ? value : T{};
}

bool has_device_extension(cl_device_id device, std::string_view name);

// Fills in all but the memory's size and what the driver does. `part` tells sub-devices of one device apart.
void describe_device(cl_device_id device, int32_t part, mydev_device_properties& out);

}  // namespace mydev::opencl_driver
