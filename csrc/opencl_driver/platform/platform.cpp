#include "opencl_driver/platform/platform.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <functional>
#include <utility>

#include "opencl_driver/api/errors.h"
#include "opencl_driver/platform/device_facts.h"

namespace mydev::opencl_driver {

namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return text;
}

std::string quoted(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "'" : ", '") + name + "'";
  return all.empty() ? "none" : all;
}

// The names that `wanted` means: all if it is "", else that of its number, else those that it is a part of.
std::vector<size_t> chosen(const std::vector<std::string>& names, const std::string& wanted) {
  std::vector<size_t> all;
  size_t number = 0;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), number);
  const bool is_number = !wanted.empty() && error == std::errc() && end == wanted.data() + wanted.size();
  for (size_t i = 0; i < names.size(); ++i) {
    if (is_number ? i == number : lower(names[i]).find(lower(wanted)) != std::string::npos) all.push_back(i);
  }
  return all;
}

std::string platform_name(cl_platform_id platform) {
  std::array<char, 256> name{};
  check_cl(cl().clGetPlatformInfo(platform, CL_PLATFORM_NAME, name.size() - 1, name.data(), nullptr),
           "clGetPlatformInfo");
  return name.data();
}

std::vector<cl_platform_id> all_platforms() {
  cl_uint count = 0;
  const cl_int code = cl().clGetPlatformIDs(0, nullptr, &count);
  if (code != CL_PLATFORM_NOT_FOUND_KHR) check_cl(code, "clGetPlatformIDs");
  require(code == CL_SUCCESS && count > 0, MYDEV_NOT_FOUND,
          "OpenCL has no platform here; install that of a device (for ", "this processor: Debian's pocl-opencl-icd)");
  std::vector<cl_platform_id> platforms(count);
  check_cl(cl().clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
  return platforms;
}

std::vector<cl_device_id> devices_of(cl_platform_id platform) {
  cl_uint count = 0;
  const cl_int code = cl().clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count);
  if (code == CL_DEVICE_NOT_FOUND || (code == CL_SUCCESS && count == 0)) return {};
  check_cl(code, "clGetDeviceIDs");
  std::vector<cl_device_id> devices(count);
  check_cl(cl().clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr), "clGetDeviceIDs");
  return devices;
}

bool is_processor(cl_device_id device) {
  return (device_number<cl_bitfield>(device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
}

// The first platform of that name that has more than the host's processor, or else any device.
cl_platform_id choose_platform(const std::string& wanted) {
  const std::vector<cl_platform_id> platforms = all_platforms();
  std::vector<std::string> names;
  names.reserve(platforms.size());
  for (cl_platform_id platform : platforms) names.push_back(platform_name(platform));
  const std::vector<size_t> matching = chosen(names, wanted);
  require(!matching.empty(), MYDEV_NOT_FOUND, "there is no OpenCL platform '", wanted, "'; there are ", quoted(names));
  cl_platform_id any = nullptr;
  for (const size_t i : matching) {
    const std::vector<cl_device_id> devices = devices_of(platforms[i]);
    if (!std::ranges::all_of(devices, is_processor)) return platforms[i];
    if (any == nullptr && !devices.empty()) any = platforms[i];
  }
  require(any != nullptr, MYDEV_NOT_FOUND, "the OpenCL platforms ", quoted(names), " have no device");
  return any;
}

std::vector<cl_device_id> choose_devices(cl_platform_id platform, const std::string& wanted) {
  const std::vector<cl_device_id> all = devices_of(platform);
  std::vector<std::string> names;
  names.reserve(all.size());
  for (cl_device_id device : all) names.push_back(device_text(device, CL_DEVICE_NAME));
  std::vector<cl_device_id> devices;
  for (const size_t i : chosen(names, wanted)) devices.push_back(all[i]);
  require(!devices.empty(), MYDEV_NOT_FOUND, "the OpenCL platform '", platform_name(platform), "' has no device '",
          wanted, "'; it has ", quoted(names));
  if (devices.size() > kMaxDevices) devices.resize(kMaxDevices);
  return devices;
}

std::vector<cl_device_id> split(cl_device_id device, int32_t parts) {
  const auto units = device_number<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS);
  const auto most = device_number<cl_uint>(device, CL_DEVICE_PARTITION_MAX_SUB_DEVICES);
  const auto wanted = static_cast<cl_uint>(parts);
  require(wanted <= most && wanted <= units, MYDEV_INVALID_ARGUMENT, "option 'devices=", parts,
          "' of the OpenCL driver: the device '", device_text(device, CL_DEVICE_NAME), "' can be split into ",
          std::min(most, units), " at most");
  const intptr_t how[] = {CL_DEVICE_PARTITION_EQUALLY, static_cast<intptr_t>(units / wanted), 0};
  cl_uint made = 0;
  check_cl(cl().clCreateSubDevices(device, how, 0, nullptr, &made), "clCreateSubDevices");
  std::vector<cl_device_id> devices(made);
  check_cl(cl().clCreateSubDevices(device, how, made, devices.data(), nullptr), "clCreateSubDevices");
  devices.resize(wanted);
  return devices;
}

}  // namespace

cl_command_queue make_queue(cl_context context, cl_device_id device) {
  cl_int code = CL_SUCCESS;
  cl_command_queue queue = cl().clCreateCommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE, &code);
  check_cl(code, "clCreateCommandQueue");
  return queue;
}

Platform::Platform(const Options& options) : id_(choose_platform(options.platform)) {
  std::vector<cl_device_id> ids = choose_devices(id_, options.device);
  const auto wanted = static_cast<size_t>(options.devices);
  const bool parts = wanted > ids.size();
  require(!parts || ids.size() == 1, MYDEV_INVALID_ARGUMENT, "option 'devices=", wanted,
          "' of the OpenCL driver: there are ", ids.size(), ", and only a single one is split; choose it by device=");
  const uint64_t shares = parts ? wanted : 1;
  if (parts) {
    ids = split(ids.front(), options.devices);
  } else if (wanted != 0) {
    ids.resize(wanted);
  }
  const std::array<intptr_t, 3> properties = {CL_CONTEXT_PLATFORM, reinterpret_cast<intptr_t>(id_), 0};
  cl_int code = CL_SUCCESS;
  context_ =
      cl().clCreateContext(properties.data(), static_cast<cl_uint>(ids.size()), ids.data(), nullptr, nullptr, &code);
  check_cl(code, "clCreateContext");
  for (cl_device_id device : ids) {
    const uint64_t memory = device_number<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE) / shares;
    devices_.push_back({.id = device,
                        .part = parts ? static_cast<int32_t>(devices_.size()) : 0,
                        .limit = options.limit != 0 ? std::min(options.limit, memory) : memory,
                        .service = make_queue(context_, device)});
  }
}

bool Platform::has_svm(cl_bitfield capabilities) const {
  return cl().clSVMAlloc != nullptr && cl().clSVMFree != nullptr && cl().clSetKernelArgSVMPointer != nullptr &&
         cl().clEnqueueSVMMemcpy != nullptr && cl().clEnqueueSVMMemFill != nullptr &&
         std::ranges::all_of(devices_, [&](const OpenclDevice& device) {
           const auto has = device_number<cl_bitfield>(device.id, CL_DEVICE_SVM_CAPABILITIES);
           return (has & capabilities) == capabilities;
         });
}

bool Platform::has_usm() const {
  return std::ranges::all_of(devices_,
                             [](const OpenclDevice& device) {
                               return has_device_extension(device.id, "cl_intel_unified_shared_memory");
                             }) &&
         load_usm(id_);
}

}  // namespace mydev::opencl_driver
