#include "opencl_driver/platform/device_facts.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <iterator>

namespace mydev::opencl_driver {

namespace {

template <size_t kSize>
void put_text(char (&out)[kSize], const std::string& text) {
  std::snprintf(out, kSize, "%s", text.c_str());
}

// Reads "OpenCL 3.0 ...": by the specification each version begins so.
void read_version(std::string_view version, mydev_device_properties& out) {
  constexpr std::string_view kBefore = "OpenCL ";
  if (!version.starts_with(kBefore)) return;
  version.remove_prefix(kBefore.size());
  const char* const begin = version.data();
  const char* const end = begin + version.size();
  const auto [point, problem] = std::from_chars(begin, end, out.major);
  if (problem == std::errc() && point != end) std::from_chars(point + 1, end, out.minor);
}

}  // namespace

std::string device_text(cl_device_id device, cl_uint what) {
  size_t bytes = 0;
  if (cl().clGetDeviceInfo(device, what, 0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return "";
  std::string text(bytes, '\0');
  if (cl().clGetDeviceInfo(device, what, bytes, text.data(), nullptr) != CL_SUCCESS) return "";
  text.resize(std::strlen(text.c_str()));
  return text;
}

bool has_device_extension(cl_device_id device, std::string_view name) {
  const std::string all = " " + device_text(device, CL_DEVICE_EXTENSIONS) + " ";
  return all.find(" " + std::string(name) + " ") != std::string::npos;
}

void describe_device(cl_device_id device, int32_t part, mydev_device_properties& out) {
  put_text(out.name, device_text(device, CL_DEVICE_NAME));
  const std::string version = device_text(device, CL_DEVICE_VERSION);
  read_version(version, out);
  out.multi_processor_count = static_cast<int32_t>(device_number<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS));
  if (out.struct_size < sizeof(out)) return;  // a runtime before 1.1
  if (has_device_extension(device, "cl_khr_device_uuid") &&
      cl().clGetDeviceInfo(device, CL_DEVICE_UUID_KHR, sizeof(out.uuid), out.uuid, nullptr) == CL_SUCCESS) {
    out.uuid[std::size(out.uuid) - 1] = static_cast<uint8_t>(out.uuid[std::size(out.uuid) - 1] + part);
  }
  put_text(out.architecture, version);
  put_text(out.driver_version, device_text(device, CL_DRIVER_VERSION));
  constexpr std::array kNative = {MYDEV_PRED, MYDEV_S8,  MYDEV_S16, MYDEV_S32, MYDEV_S64,
                                  MYDEV_U8,   MYDEV_U16, MYDEV_U32, MYDEV_U64, MYDEV_F32};
  for (const mydev_dtype dtype : kNative) out.native_dtypes |= MYDEV_DTYPE_BIT(dtype);
  if (has_device_extension(device, "cl_khr_fp16")) out.native_dtypes |= MYDEV_DTYPE_BIT(MYDEV_F16);
  if (device_number<cl_bitfield>(device, CL_DEVICE_DOUBLE_FP_CONFIG) != 0) {
    out.native_dtypes |= MYDEV_DTYPE_BIT(MYDEV_F64);
  }
  out.local_memory = device_number<cl_ulong>(device, CL_DEVICE_LOCAL_MEM_SIZE);
}

}  // namespace mydev::opencl_driver
