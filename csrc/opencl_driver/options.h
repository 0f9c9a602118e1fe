// Options of the driver: MYDEV_DRIVER=opencl:platform=pocl,device=0,devices=2,memory=buffers,limit=2G.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mydev::opencl_driver {

inline constexpr int32_t kMaxDevices = 16;

// How the device's memory is had: memory=usm|svm|fine|buffers.
enum class MemoryKind : uint8_t {
  kBest,     // the first of kUsm, kSvm and kBuffers that the devices have
  kUsm,      // memory of the device's own, with addresses (cl_intel_unified_shared_memory)
  kSvm,      // shared virtual memory of coarse grain, which the host does not touch
  kFine,     // shared virtual memory of fine grain, which the host reaches
  kBuffers,  // buffer objects behind addresses that the driver makes up
};

struct Options {
  std::string platform;  // a number, or a part of the name in any case; "": the best
  std::string device;    // likewise; "": all of the platform
  int32_t devices = 0;   // so many; a single device is split. 0: all
  MemoryKind memory = MemoryKind::kBest;
  uint64_t limit = 0;  // bytes of each device; 0: what the device says
};

// Raises INVALID_ARGUMENT that names the option and what is valid.
Options parse_options(std::string_view text);

}  // namespace mydev::opencl_driver
