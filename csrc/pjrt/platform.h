// What the driver's devices are to a PJRT client: devices, their memories, a topology. Made at the first client, from
// the driver that MYDEV_DRIVER names, and alive as long as the process, so that handles that outlive their client, as
// Python's may at exit, do no harm. Nothing changes once it is made.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pjrt/c_api/client.h"
#include "pjrt/device_queue.h"
#include "runtime/stream/stream.h"

namespace mydev::pjrt {

enum class MemoryKind : uint8_t { kDevice, kPinnedHost, kUnpinnedHost };
inline constexpr size_t kMemoryKinds = 3;
inline constexpr std::array<const char*, kMemoryKinds> kMemoryKindNames = {"device", "pinned_host", "unpinned_host"};

}  // namespace mydev::pjrt

struct PJRT_MemoryDescription {
  mydev::pjrt::MemoryKind kind;
};

struct PJRT_Memory {
  int id;
  mydev::pjrt::MemoryKind kind;
  PJRT_Device* device;
  std::string debug_string, to_string;
  bool on_host() const noexcept { return kind != mydev::pjrt::MemoryKind::kDevice; }
};

struct PJRT_DeviceDescription {
  int id;
  std::string kind, debug_string, to_string;
  std::vector<PJRT_NamedValue> attributes;
};

struct PJRT_Device {
  explicit PJRT_Device(mydev::Device& device);

  mydev::Device& device;
  mydev::Stream& stream;  // of all that it is given: the default one, which torch_mydev in the same process has too
  PJRT_DeviceDescription description;
  std::array<PJRT_Memory, mydev::pjrt::kMemoryKinds> memories;
  std::array<PJRT_Memory*, mydev::pjrt::kMemoryKinds> memory_handles;
  PJRT_Device* handle;  // itself: what a memory is addressable by
  mydev::pjrt::DeviceQueue queue;

  int id() const noexcept { return description.id; }
  PJRT_Memory& default_memory() noexcept { return memories[0]; }
};

struct PJRT_TopologyDescription {
  std::vector<PJRT_DeviceDescription*> descriptions;
};

namespace mydev::pjrt {

class Platform {
 public:
  // Raises what keeps the driver from loading.
  static Platform& get();

  const std::vector<PJRT_Device*>& devices() const noexcept { return handles_; }
  const std::vector<PJRT_Memory*>& memories() const noexcept { return memories_; }
  PJRT_TopologyDescription& topology() noexcept { return topology_; }
  const std::string& version() const noexcept { return version_; }
  uint64_t fingerprint() const noexcept { return fingerprint_; }
  // Raises INVALID_ARGUMENT naming the valid range.
  PJRT_Device& device(int64_t id) const;
  // Waits until all devices have submitted and done what they were given; their errors stay with who asks for them.
  void wait_for_devices() noexcept;

 private:
  Platform();

  std::vector<std::unique_ptr<PJRT_Device>> devices_;
  std::vector<PJRT_Device*> handles_;
  std::vector<PJRT_Memory*> memories_;
  PJRT_TopologyDescription topology_;
  std::string version_;
  uint64_t fingerprint_ = 0;
};

// Where a buffer shall be: in a memory, or in a device's default one. Raises INVALID_ARGUMENT where neither is given.
PJRT_Memory& chosen_memory(PJRT_Device* device, PJRT_Memory* memory);

}  // namespace mydev::pjrt

struct PJRT_Client {
  mydev::pjrt::Platform& platform;
};
