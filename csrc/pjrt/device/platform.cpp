#include "pjrt/device/platform.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>

#include "pjrt/base/fingerprint.h"
#include "runtime/base/config.h"
#include "runtime/base/device_name.h"
#include "runtime/base/status.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver_life_cycle.h"
#include "runtime/stream/event.h"
#include "runtime/stream/stream_table.h"

namespace mydev::pjrt {

namespace {

PJRT_DeviceDescription description_of(int id, int process, const std::string& kind) {
  const std::string name = device_text(id);
  return {id, process, kind, name + " (" + kind + ")", name, {}};
}

std::string kind_of(const mydev::Device& device) {
  return static_cast<const char*>(device.properties.name);
}

std::shared_ptr<transport::Processes> join(const ProcessPlace& place, const std::vector<int>& devices) {
  if (place.count == 1) return nullptr;
  MYDEV_CHECK(place.store != nullptr, MYDEV_INVALID_ARGUMENT, "client option 'num_nodes' is ", place.count,
              ", and the client brings no key-value store in which the processes find each other");
  transport::JoinOptions options{.index = place.index, .count = place.count};
  options.devices = static_cast<int64_t>(devices.size());
  if (!devices.empty()) options.device_kind = kind_of(mydev::device(devices.front()));
  options.address = config_string("MYDEV_PROCESS_ADDRESS");
  const double seconds = std::strtod(config_string("MYDEV_PROCESS_TIMEOUT").c_str(), nullptr);
  if (seconds > 0) options.timeout = std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
  return transport::Processes::join(options, *place.store);
}

struct Opened {
  std::mutex mutex;
  Platform* platform = nullptr;
};
Opened& opened() {
  static Opened& opened = *new Opened;
  return opened;
}

}  // namespace

LocalDevice::LocalDevice(mydev::Device& runtime_device, int id, int process)
    : PJRT_Device{description_of(id, process, kind_of(runtime_device))},
      device(runtime_device),
      stream(mydev::default_stream(runtime_device.index)),
      handle(this),
      queue("mydev-pjrt-" + std::to_string(runtime_device.index)),
      readings("mydev-pjrt-r" + std::to_string(runtime_device.index)) {
  for (size_t i = 0; i < kMemoryKinds; ++i) {
    const std::string memory_name = std::string(kMemoryKindNames[i]) + " of " + description.to_string;
    const int memory = id * static_cast<int>(kMemoryKinds) + static_cast<int>(i);
    memories[i] = {memory, static_cast<MemoryKind>(i), this, memory_name, memory_name};
    memory_handles[i] = &memories[i];
  }
}

Platform& Platform::open(const ProcessPlace& place) {
  const std::lock_guard lock(opened().mutex);
  Platform*& platform = opened().platform;
  if (platform == nullptr) {
    platform = new Platform(place);
    if (platform->processes_ != nullptr) std::atexit([] { opened().platform->processes_->leave(); });
  }
  const int count = platform->processes_ == nullptr ? 1 : platform->processes_->count();
  MYDEV_CHECK(platform->process() == place.index && count == place.count, MYDEV_FAILED_PRECONDITION,
              "the client is process ", place.index, " of ", place.count, ", and this process uses the devices as ",
              platform->process(), " of ", count, " already");
  return *platform;
}

Platform& Platform::get() {
  {
    const std::lock_guard lock(opened().mutex);
    if (opened().platform != nullptr) return *opened().platform;
  }
  return open({});
}

Platform::Platform(const ProcessPlace& place) {
  const LoadedDriver* driver = load_driver_once();
  if (driver == nullptr) raise_driver_missing();
  const int count = device_count();
  std::vector<int> used;  // of the driver's
  for (int i = 0; i < count; ++i) {
    if (!place.only_device || *place.only_device % count == i) used.push_back(i);
  }
  processes_ = join(place, used);
  const int processes = processes_ == nullptr ? 1 : processes_->count();
  for (int p = 0; p < processes; ++p) {
    const bool here = p == process();
    const size_t devices =
        here ? used.size() : static_cast<size_t>(processes_->records()[static_cast<size_t>(p)].devices);
    for (size_t i = 0; i < devices; ++i) {
      const int id = static_cast<int>(handles_.size());
      if (here) {
        local_devices_.push_back(std::make_unique<LocalDevice>(mydev::device(used[i]), id, p));
        handles_.push_back(local_devices_.back().get());
        local_handles_.push_back(handles_.back());
        for (PJRT_Memory& memory : local_devices_.back()->memories) memories_.push_back(&memory);
      } else {
        const std::string& kind = processes_->records()[static_cast<size_t>(p)].device_kind;
        other_devices_.push_back(std::make_unique<PJRT_Device>(PJRT_Device{description_of(id, p, kind)}));
        handles_.push_back(other_devices_.back().get());
      }
      topology_.descriptions.push_back(&handles_.back()->description);
    }
  }
  version_ = std::string(device_name()) + " with driver " + driver->api->name + " " + driver->api->version;
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

LocalDevice& Platform::local_device(int64_t index) const {
  const auto found =
      std::ranges::find(local_devices_, index, [](const auto& device) { return int64_t{device->device.index}; });
  MYDEV_CHECK(found != local_devices_.end(), MYDEV_INVALID_ARGUMENT, "No matching device found for local_hardware_id ",
              index, "; this process uses ", local_devices_.size(), " of the driver's devices");
  return **found;
}

LocalDevice& Platform::local(PJRT_Device& device) const {
  MYDEV_CHECK(is_local(device), MYDEV_INVALID_ARGUMENT, device.description.to_string, " is a device of process ",
              device.description.process, ", and this is process ", process(),
              ": each process gives work and data to its own devices");
  return static_cast<LocalDevice&>(device);
}

void Platform::wait_for_devices() noexcept {
  for (const auto& device : local_devices_) {
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
  return Platform::get().local(*device).default_memory();
}

}  // namespace mydev::pjrt
