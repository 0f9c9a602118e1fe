// The handshake, the devices and what they say of themselves.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string>

#include "conform/driver/driver_case.h"
#include "conform/driver/groups.h"
#include "runtime/driver/driver_life_cycle.h"

namespace mydev::conform {
namespace {

void loads(DriverCase& t) {
  t.checks.that(driver_loaded(), "no driver is loaded");  // why not is said before a case of this suite begins
}

void names_itself(DriverCase& t) {
  t.checks.that(t.driver().name != nullptr && t.driver().name[0] != '\0', "the table's name is empty");
  t.checks.that(t.driver().version != nullptr, "the table's version is NULL");
}

void last_error_is_never_null(DriverCase& t) {
  t.checks.that(t.driver().last_error() != nullptr, "last_error() is NULL where nothing has failed; give \"\"");
}

void counts_its_devices(DriverCase& t) {
  int32_t count = -1;
  t.must(t.driver().device_count(&count), "device_count");
  t.checks.equal("device_count, asked again,", count, device_count());
}

void each_device_describes_itself(DriverCase& t) {
  for (int index = 0; index < device_count(); ++index) {
    const mydev_device_properties& properties = device(index).properties;
    const std::string of = " of device " + std::to_string(index);
    t.checks.that(properties.name[0] != '\0', "the name" + of + " is empty");
    t.checks.that(properties.total_memory > 0, "total_memory" + of + " is 0");
    t.checks.that(
        properties.alignment >= 64 && std::has_single_bit(properties.alignment),
        "alignment" + of + " is " + std::to_string(properties.alignment) + "; expected a power of two, at least 64");
    t.checks.that(properties.stream_priority_high <= properties.stream_priority_low,
                  "stream_priority_high" + of + " is above stream_priority_low: a larger number is less urgent");
    t.checks.that(properties.multi_processor_count >= 1, "multi_processor_count" + of + " is below 1");
    t.checks.that(properties.architecture[0] != '\0', "architecture" + of + " is empty");
    t.checks.that(properties.max_allocation >= 1 && properties.max_allocation <= properties.total_memory,
                  "max_allocation" + of + " is " + std::to_string(properties.max_allocation) +
                      "; expected at least 1 and at most total_memory");
  }
}

void leaves_what_is_beyond_struct_size_alone(DriverCase& t) {
  mydev_device_properties properties;
  std::memset(&properties, 0x5a, sizeof(properties));
  properties.struct_size = offsetof(mydev_device_properties, uuid);  // as 1.0 has it
  t.must(t.driver().device_properties(0, &properties), "device_properties with the struct_size of version 1.0");
  const auto* bytes = reinterpret_cast<const unsigned char*>(&properties);
  t.checks.that(std::all_of(bytes + properties.struct_size, bytes + sizeof(properties),
                            [](unsigned char byte) { return byte == 0x5a; }),
                "fields beyond struct_size were written; write a field only if struct_size covers it");
}

void tells_devices_apart(DriverCase& t) {
  const auto uuid_of = [&](int index) {
    mydev_device_properties properties{};
    properties.struct_size = sizeof(properties);
    t.must(t.driver().device_properties(index, &properties), "device_properties");
    return Bytes(std::begin(properties.uuid), std::end(properties.uuid));
  };
  const Bytes uuid = uuid_of(0);
  t.needs(uuid != Bytes(std::size(uuid), 0), "the driver tells no uuid");
  t.same_bytes("the uuid of device 0, asked again", uuid_of(0), uuid);
  for (int index = 1; index < device_count(); ++index) {
    t.checks.that(uuid_of(index) != uuid, "devices 0 and " + std::to_string(index) + " have the same uuid");
  }
}

void tells_which_peers_it_reaches(DriverCase& t) {
  t.needs(t.driver().peer_access != nullptr && device_count() >= 2, "needs peer_access and two devices");
  int32_t can = -1;
  t.must(t.driver().peer_access(0, 1, &can), "peer_access(0, 1)");
  t.checks.that(can == 0 || can == 1, "peer_access gives 0 or 1, and gave " + std::to_string(can));
  t.checks.that(can == 0 || t.driver().copy_peer != nullptr, "peer_access gives 1, and there is no copy_peer");
}

void measures_make_sense(DriverCase& t) {
  const auto* telemetry = extension_of<mydev_telemetry_extension>(t.driver(), MYDEV_TELEMETRY_EXTENSION);
  t.needs(telemetry != nullptr, "the driver has no extension 'telemetry'");
  for (int32_t what = MYDEV_MEASURE_UTILIZATION; what <= MYDEV_MEASURE_CLOCK; ++what) {
    double value = -1;
    const mydev_code code = telemetry->measure(0, what, &value);
    const std::string measure = "measure(0, " + std::to_string(what) + ")";
    if (code == MYDEV_UNIMPLEMENTED) continue;
    t.must(code, measure);
    const bool is_percentage = what <= MYDEV_MEASURE_MEMORY_UTILIZATION;
    t.checks.that(std::isfinite(value) && (!is_percentage || (value >= 0 && value <= 100)),
                  measure + " gives " + std::to_string(value));
  }
  double value = 0;
  t.checks.that(telemetry->measure(0, 1000, &value) == MYDEV_UNIMPLEMENTED,
                "measure(0, 1000), which no header has yet, is not MYDEV_UNIMPLEMENTED");
}

}  // namespace

std::vector<Case> handshake_cases() {
  return driver_cases({
      {"loads", "the file is a driver of this version, whole, initializes and has a device", loads, true},
      MYDEV_CASE(names_itself, "the table has a name and a version"),
      MYDEV_CASE(last_error_is_never_null, "last_error gives a text where nothing has failed"),
      MYDEV_CASE(counts_its_devices, "device_count gives the same number each time"),
      MYDEV_CASE(each_device_describes_itself, "name, memory, alignment, priorities and limits make sense"),
      MYDEV_CASE(leaves_what_is_beyond_struct_size_alone, "an older runtime's smaller properties are not overrun"),
      MYDEV_CASE(tells_devices_apart, "a uuid is the same each time, and another device's is another"),
      MYDEV_CASE(tells_which_peers_it_reaches, "peer_access says yes or no, and yes only with copy_peer"),
      MYDEV_CASE(measures_make_sense, "telemetry gives percentages between 0 and 100, and finite numbers"),
  });
}

}  // namespace mydev::conform
