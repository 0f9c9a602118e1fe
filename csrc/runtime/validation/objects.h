// The driver's live objects: devices with their properties, allocations, streams and events. Objects that were alive
// until lately are kept for messages. Raises Findings. The owner guards it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "mydev/driver.h"
#include "runtime/base/interval_map.h"
#include "runtime/validation/access_history.h"
#include "runtime/validation/memory_view.h"
#include "runtime/validation/order.h"

namespace mydev::validation {

inline constexpr int32_t kPinned = -1;  // the space of memory from host_alloc; others are devices

struct Allocation {
  uint64_t bytes;
};

// Memory with addresses of its own: a device's, or pinned memory.
struct Space {
  mydev_device_properties properties{};
  IntervalMap<Allocation> allocations;
  uint64_t allocated = 0;
  int64_t host_accesses = 0;  // begun and not ended
  int64_t host_ranges = 0;    // the same of ranges
  int64_t streams_made = 0;
  AccessHistory history;
};

struct StreamObject {
  int32_t device;
  std::string name;  // "stream 2 of device 0 (0x55..)"
  StreamOrder order;
  std::string finding;  // to be reported by stream_status; "" if none
};

struct EventObject {
  int32_t device;
  uint32_t flags;
  bool recorded = false;
  Point point;
};

class Objects {
 public:
  // --- devices ---
  void set_devices(std::vector<mydev_device_properties> properties);
  Space& device(int32_t device);  // a Finding if there is none
  Space& space(int32_t space) { return spaces_.at(space); }
  bool has(int32_t device, uint32_t capability) { return (space(device).properties.capabilities & capability) != 0; }
  int32_t device_count() const noexcept { return static_cast<int32_t>(spaces_.size()) - 1; }
  // Allows memory that comes from tables which are not looked at.
  void allow_other_memory() noexcept { other_memory_ = true; }

  // --- memory ---
  void add_allocation(int32_t space, void* data, uint64_t bytes);
  // Raises a Finding if there is no such allocation, or it has another size.
  void check_allocation(int32_t space, const void* data, uint64_t bytes);
  void remove_allocation(int32_t space, const void* data);
  // Checks that the bytes lie in one allocation of the space. `what` names them.
  void check_range(int32_t device, const MemoryView& view, const std::string& what);
  // True if the host's side of a copy lies in pinned memory, in one allocation.
  bool check_host_range(const MemoryView& view, const std::string& what);

  // --- handles ---
  StreamObject& add_stream(mydev_stream handle, int32_t device, Order& order);
  StreamObject& stream(mydev_stream handle);
  StreamObject* find_stream(mydev_stream handle);
  void remove_stream(mydev_stream handle);
  EventObject& add_event(mydev_event handle, int32_t device, uint32_t flags);
  EventObject& event(mydev_event handle);
  void remove_event(mydev_event handle);
  const std::unordered_map<mydev_stream, StreamObject>& streams() const noexcept { return streams_; }

  std::string summary() const;  // of what is alive

 private:
  // An object that is no longer alive. past_ has the latest last, and is bounded.
  struct Past {
    int32_t space;
    uintptr_t begin, end;
  };
  void remember(int32_t space, const void* data, uint64_t bytes);
  std::string past(int32_t space, uintptr_t address) const;
  [[noreturn]] void refuse_handle(const char* kind, const void* handle) const;

  std::map<int32_t, Space> spaces_;
  bool other_memory_ = false;
  std::unordered_map<mydev_stream, StreamObject> streams_;
  std::unordered_map<mydev_event, EventObject> events_;
  std::deque<Past> past_;
};

}  // namespace mydev::validation
