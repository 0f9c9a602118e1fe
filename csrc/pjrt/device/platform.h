// The driver's devices as a PJRT client sees them: devices, their memories, a topology. It also has the devices of the
// other processes of the job, of which only the description is known. The platform is made at the first client, from
// the driver that MYDEV_DRIVER names. It lives as long as the process, so that handles that outlive their client, as
// Python's may at exit, do no harm. Nothing changes once it is made.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pjrt/c_api/client.h"
#include "pjrt/device/work_queue.h"
#include "runtime/stream/stream.h"
#include "transport/processes.h"

namespace mydev::pjrt {

enum class MemoryKind : uint8_t { kDevice, kPinnedHost, kUnpinnedHost };
inline constexpr size_t kMemoryKinds = 3;
inline constexpr std::array<const char*, kMemoryKinds> kMemoryKindNames = {"device", "pinned_host", "unpinned_host"};

class LocalDevice;

}  // namespace mydev::pjrt

struct PJRT_MemoryDescription {
  mydev::pjrt::MemoryKind kind;
};

struct PJRT_Memory {
  int id;
  mydev::pjrt::MemoryKind kind;
  mydev::pjrt::LocalDevice* device;
  std::string debug_string, to_string;
  bool on_host() const noexcept { return kind != mydev::pjrt::MemoryKind::kDevice; }
};

struct PJRT_DeviceDescription {
  int id;  // over all processes
  int process;
  std::string kind, debug_string, to_string;
  std::vector<PJRT_NamedValue> attributes;
};

// A device of any process.
struct PJRT_Device {
  PJRT_DeviceDescription description;

  int id() const noexcept { return description.id; }
};

struct PJRT_TopologyDescription {
  std::vector<PJRT_DeviceDescription*> descriptions;
};

namespace mydev::pjrt {

// A device of this process, which can be given work.
class LocalDevice : public PJRT_Device {
 public:
  LocalDevice(mydev::Device& device, int id, int process);

  mydev::Device& device;
  mydev::Stream& stream;  // of all that it is given: the default one, which torch_mydev in the same process has too
  std::array<PJRT_Memory, kMemoryKinds> memories;
  std::array<PJRT_Memory*, kMemoryKinds> memory_handles;
  PJRT_Device* handle;  // itself: what a memory is addressable by
  WorkQueue queue;
  // The queue for the reads of callbacks (CallbackScope): their threads belong to the driver, and must not use it.
  WorkQueue readings;
  // Work in the queue's order that the stream has not done yet.
  std::atomic<int64_t> unfinished{0};

  PJRT_Memory& default_memory() noexcept { return memories[0]; }
};

// The process of a client, the number of processes, and the store by which they find each other.
struct ProcessPlace {
  int index = 0, count = 1;
  // The one device of the driver that this process uses, modulo how many there are; none: all of them.
  std::optional<int64_t> only_device;
  transport::KeyValueStore* store = nullptr;
};

class Platform {
 public:
  // Returns the platform as one of the job's processes, and joins them the first time. Raises the errors of loading the
  // driver and of Processes::join(), and FAILED_PRECONDITION if this process is another one already.
  static Platform& open(const ProcessPlace& place);
  // Returns the platform that was opened; if none was, opens it for a process by itself.
  static Platform& get();

  const std::vector<PJRT_Device*>& devices() const noexcept { return handles_; }  // of all processes
  const std::vector<PJRT_Device*>& local_devices() const noexcept { return local_handles_; }
  const std::vector<PJRT_Memory*>& memories() const noexcept { return memories_; }  // of this process
  PJRT_TopologyDescription& topology() noexcept { return topology_; }
  const std::string& version() const noexcept { return version_; }
  uint64_t fingerprint() const noexcept { return fingerprint_; }
  int process() const noexcept { return processes_ == nullptr ? 0 : processes_->index(); }
  // Returns nullptr if there is only this process.
  const std::shared_ptr<transport::Processes>& processes() const noexcept { return processes_; }
  // Raise INVALID_ARGUMENT if there is no such device, with the number of devices, and for a device of another process,
  // with its meaning.
  PJRT_Device& device(int64_t id) const;
  LocalDevice& local_device(int64_t index) const;  // of the driver's
  LocalDevice& local(PJRT_Device& device) const;
  bool is_local(const PJRT_Device& device) const noexcept { return device.description.process == process(); }
  // Waits until all devices have submitted and done their work. Their errors are left for later callers that ask for
  // them.
  void wait_for_devices() noexcept;

 private:
  explicit Platform(const ProcessPlace& place);

  std::shared_ptr<transport::Processes> processes_;
  std::vector<std::unique_ptr<LocalDevice>> local_devices_;
  std::vector<std::unique_ptr<PJRT_Device>> other_devices_;
  std::vector<PJRT_Device*> handles_, local_handles_;
  std::vector<PJRT_Memory*> memories_;
  PJRT_TopologyDescription topology_;
  std::string version_;
  uint64_t fingerprint_ = 0;
};

// Returns the memory for a buffer: the given memory, or the device's default one. Raises INVALID_ARGUMENT if neither is
// given, and for a device of another process.
PJRT_Memory& chosen_memory(PJRT_Device* device, PJRT_Memory* memory);

}  // namespace mydev::pjrt

struct PJRT_Client {
  mydev::pjrt::Platform& platform;
};
