#include "host_driver/observe/hardware.h"

#include <sys/utsname.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

namespace mydev::host_driver {

namespace {

// 16 bytes that are this machine's, where it has them; the last tells its devices apart.
void read_machine_id(int32_t device, uint8_t (&uuid)[16]) {
  std::ifstream file("/etc/machine-id");
  std::string digits;
  if (!(file >> digits) || digits.size() != 2 * std::size(uuid) ||
      digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return;
  }
  for (size_t i = 0; i < std::size(uuid); ++i) {
    uuid[i] = static_cast<uint8_t>(std::stoul(digits.substr(2 * i, 2), nullptr, 16));
  }
  uuid[15] = static_cast<uint8_t>(uuid[15] + device);
}

}  // namespace

void describe_hardware(int32_t device, mydev_device_properties& out) {
  read_machine_id(device, out.uuid);
  utsname system{};
  if (::uname(&system) == 0) {
    std::snprintf(out.architecture, sizeof(out.architecture), "%.*s", int{sizeof(out.architecture) - 1},
                  system.machine);
  }
  constexpr std::array kNative = {MYDEV_PRED, MYDEV_S8,  MYDEV_S16, MYDEV_S32, MYDEV_S64, MYDEV_U8,
                                  MYDEV_U16,  MYDEV_U32, MYDEV_U64, MYDEV_F32, MYDEV_F64};
  for (const mydev_dtype dtype : kNative) out.native_dtypes |= MYDEV_DTYPE_BIT(dtype);
}

}  // namespace mydev::host_driver
