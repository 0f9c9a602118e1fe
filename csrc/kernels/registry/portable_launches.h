// How often portable records ran, for statistics: a launch shows the kernel's name alone. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/api.h"

namespace mydev {

// Launches of a name's portable record on a device, since the process began. Lives as long as the process.
MYDEV_API std::atomic<uint64_t>& portable_launches(std::string_view name, int device);

struct PortableLaunches {
  std::string name;
  int device;
  uint64_t count;
};
MYDEV_API std::vector<PortableLaunches> all_portable_launches();

}  // namespace mydev
