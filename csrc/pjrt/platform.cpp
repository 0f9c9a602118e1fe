#include "pjrt/platform.h"

#include "pjrt/fingerprint.h"
#include "runtime/base/device_name.h"
#include "runtime/base/status.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver_life_cycle.h"
#include "runtime/stream/event.h"
#include "runtime/stream/stream_table.h"

using mydev::pjrt::kMemoryKindNames;
using mydev::pjrt::kMemoryKinds;
using mydev::pjrt::MemoryKind;

PJRT_Device::PJRT_Device(mydev::Device& runtime_device)
    : device(runtime_device),
      stream(mydev::default_stream(runtime_device.index)),
      handle(this),
      queue(MYDEV_DEVICE_NAME "-pjrt-" + std::to_string(runtime_device.index)) {
  const std::string name = MYDEV_DEVICE_NAME ":" + std::to_string(device.index);
  const std::string kind = static_cast<const char*>(device.properties.name);
  description = {device.index, kind, name + " (" + kind + ")", name, {}};
  for (size_t i = 0; i < kMemoryKinds; ++i) {
    const std::string memory_name = std::string(kMemoryKindNames[i]) + " of " + name;
    const int id = device.index * static_cast<int>(kMemoryKinds) + static_cast<int>(i);
    memories[i] = {id, static_cast<MemoryKind>(i), this, memory_name, memory_name};
    memory_handles[i] = &memories[i];
  }
}

namespace mydev::pjrt {

Platform& Platform::get() {
  static Platform& platform = *new Platform();
  return platform;
}

Platform::Platform() {
  const LoadedDriver* driver = load_driver_once();
  if (driver == nullptr) raise_driver_missing();
  const int count = device_count();
  for (int i = 0; i < count; ++i) {
    PJRT_Device& device = *devices_.emplace_back(std::make_unique<PJRT_Device>(mydev::device(i)));
    handles_.push_back(&device);
    for (PJRT_Memory& memory : device.memories) memories_.push_back(&memory);
    topology_.descriptions.push_back(&device.description);
  }
  version_ = std::string(MYDEV_DEVICE_NAME " with driver ") + driver->api->name + " " + driver->api->version;
  Fingerprint hash;
  hash.add(version_);
  for (const PJRT_Device* device : handles_) hash.add(device->description.debug_string);
  fingerprint_ = hash.value();
}

PJRT_Device& Platform::device(int64_t id) const {
  MYDEV_CHECK(id >= 0 && id < static_cast<int64_t>(handles_.size()), MYDEV_INVALID_ARGUMENT,
              "No matching device found for device_id ", id, "; there are ", handles_.size(), ", numbered from 0");
  return *handles_[static_cast<size_t>(id)];
}

void Platform::wait_for_devices() noexcept {
  for (PJRT_Device* device : handles_) {
    device->queue.drain();
    if (!device->stream.asynchronous()) continue;
    try {
      Event event(device->device.index, /*timing=*/false);
      event.record_uncaptured(device->stream);
      event.wait_until_done();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): a process that must not use the device
    }
  }
}

PJRT_Memory& chosen_memory(PJRT_Device* device, PJRT_Memory* memory) {
  if (memory != nullptr) return *memory;
  MYDEV_CHECK(device != nullptr, MYDEV_INVALID_ARGUMENT, "neither a device nor a memory was given for the buffer");
  return device->default_memory();
}

}  // namespace mydev::pjrt
