// The devices that the driver offers, and the context that they share: of one platform, chosen by the options. Made
// once and never given back, since work may run until the process is gone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "opencl_driver/api/opencl_api.h"
#include "opencl_driver/options.h"

namespace mydev::opencl_driver {

struct OpenclDevice {
  cl_device_id id = nullptr;
  int32_t part = 0;                    // of a device that was split
  uint64_t limit = 0;                  // bytes of its memory
  cl_command_queue service = nullptr;  // for the driver's own commands, which are no stream's
};

class Platform {
 public:
  // Raises NOT_FOUND where there is no such platform or device, INVALID_ARGUMENT where it cannot be split so.
  explicit Platform(const Options& options);

  cl_platform_id id() const noexcept { return id_; }
  cl_context context() const noexcept { return context_; }
  const std::vector<OpenclDevice>& devices() const noexcept { return devices_; }
  const OpenclDevice& device(int32_t index) const { return devices_[static_cast<size_t>(index)]; }
  // Whether each device has these bits among its capabilities of shared virtual memory, and the loader the functions.
  bool has_svm(cl_bitfield capabilities) const;
  bool has_usm() const;

 private:
  cl_platform_id id_ = nullptr;
  cl_context context_ = nullptr;
  std::vector<OpenclDevice> devices_;
};

// A queue in order, whose commands note their times.
cl_command_queue make_queue(cl_context context, cl_device_id device);

}  // namespace mydev::opencl_driver
