// The handshake: the driver is loaded and its table names it.
#include <cstdint>
#include <string>

#include "conform/driver/groups.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver_life_cycle.h"

namespace mydev::conform {
namespace {

void loads(Checks& checks) {
  checks.require(driver_error()[0] == '\0', driver_error());
}

}  // namespace

std::vector<Case> handshake_cases() {
  return {{"loads", "the file is a driver of this version, whole, and initializes", loads}};
}

}  // namespace mydev::conform
