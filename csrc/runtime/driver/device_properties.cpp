#include "runtime/driver/device_properties.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "runtime/base/hash.h"
#include "runtime/base/status.h"

namespace mydev {

namespace {

// Makes the UUID of a device that has none. It is of version 8 of RFC 9562, which leaves the other bits free.
void make_uuid(mydev_device_properties& properties, const char* driver, int32_t index) {
  const std::string text = std::string(driver) + "/" + properties.name + "/" + std::to_string(index);
  for (size_t i = 0; i < std::size(properties.uuid); ++i) {
    properties.uuid[i] = static_cast<uint8_t>(fnv1a(text, i / 8) >> (i % 8 * 8));
  }
  properties.uuid[6] = static_cast<uint8_t>(0x80U | (properties.uuid[6] & 0x0fU));
  properties.uuid[8] = static_cast<uint8_t>(0x80U | (properties.uuid[8] & 0x3fU));
}

template <size_t kSize>
void terminate(char (&text)[kSize]) {
  text[kSize - 1] = '\0';
}

template <size_t kSize>
void set_if_empty(char (&text)[kSize], const char* value) {
  if (text[0] != '\0' || value == nullptr) return;
  const size_t length = std::string_view(value).copy(text, kSize - 1);  // cut where it is longer
  text[length] = '\0';
}

void complete(mydev_device_properties& properties, const mydev_driver_api& driver, int32_t index) {
  terminate(properties.name);
  terminate(properties.architecture);
  terminate(properties.driver_version);
  set_if_empty(properties.architecture, properties.name);
  set_if_empty(properties.driver_version, driver.version);
  if (properties.max_allocation == 0) properties.max_allocation = properties.total_memory;
  const std::span<const uint8_t> uuid(properties.uuid);
  if (std::all_of(uuid.begin(), uuid.end(), [](uint8_t byte) { return byte == 0; })) {
    make_uuid(properties, driver.name, index);
  }
}

void check(const mydev_device_properties& properties, const mydev_driver_api& driver, const std::string& spec,
           int32_t index) {
  const auto require = [&](bool condition, const auto&... what) {
    MYDEV_CHECK(condition, MYDEV_FAILED_PRECONDITION, "driver '", spec, "' gives device ", index, what...);
  };
  const uint32_t alignment = properties.alignment;
  require(alignment >= 64 && (alignment & (alignment - 1)) == 0, " an alignment of ", alignment,
          " bytes; it must be a power of two and at least 64");
  require(properties.stream_priority_high <= properties.stream_priority_low, " stream priorities from ",
          properties.stream_priority_high, " to ", properties.stream_priority_low,
          "; the more urgent one must be the smaller number");
  require(properties.max_allocation <= properties.total_memory, " a largest allocation of ", properties.max_allocation,
          " bytes, and a total memory of ", properties.total_memory, "; it must be at most that, or 0");
  const bool asynchronous = (properties.capabilities & MYDEV_CAPABILITY_ASYNC) != 0;
  const bool copies = (properties.capabilities & MYDEV_CAPABILITY_LAUNCH_COPIES) != 0;
  require(!copies || (asynchronous && driver.stream_status != nullptr), " LAUNCH_COPIES without ",
          asynchronous ? "the entry 'stream_status'" : "ASYNC", "; failures of its launches would be lost");
}

}  // namespace

mydev_device_properties read_properties(const mydev_driver_api& driver, const std::string& spec, int32_t index) {
  mydev_device_properties properties{};
  properties.struct_size = sizeof(properties);
  const mydev_code code = driver.device_properties(index, &properties);
  MYDEV_CHECK(code == MYDEV_OK, code, "driver '", spec, "': reading the properties of device ", index,
              " failed: ", driver.last_error(), " [", code_name(code), "]");
  complete(properties, driver, index);
  check(properties, driver, spec, index);
  return properties;
}

}  // namespace mydev
