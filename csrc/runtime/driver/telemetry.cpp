#include "runtime/driver/telemetry.h"

#include "runtime/base/status.h"
#include "runtime/driver/driver_life_cycle.h"

namespace mydev {

namespace {

const char* name_of(mydev_measure what) {
  switch (what) {
    case MYDEV_MEASURE_UTILIZATION:
      return "utilization";
    case MYDEV_MEASURE_MEMORY_UTILIZATION:
      return "utilization of memory";
    case MYDEV_MEASURE_TEMPERATURE:
      return "temperature";
    case MYDEV_MEASURE_POWER:
      return "power draw";
    case MYDEV_MEASURE_CLOCK:
      return "clock rate";
  }
  return "measure of that number";
}

}  // namespace

double measure(const Device& device, mydev_measure what) {
  const auto* telemetry = extension_of<mydev_telemetry_extension>(*device.driver, MYDEV_TELEMETRY_EXTENSION);
  double value = 0;
  const mydev_code code = telemetry != nullptr ? telemetry->measure(device.index, what, &value) : MYDEV_UNIMPLEMENTED;
  MYDEV_CHECK(code != MYDEV_UNIMPLEMENTED, MYDEV_UNIMPLEMENTED, "the driver '", device.driver->name,
              "' does not tell the ", name_of(what), " of its devices",
              telemetry != nullptr ? "" : ": it has no extension '" MYDEV_TELEMETRY_EXTENSION "'");
  check_driver(device, code, "asking how busy the device is");
  return value;
}

}  // namespace mydev
