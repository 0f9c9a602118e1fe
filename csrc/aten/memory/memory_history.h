// The history of device memory, as torch.cuda.memory keeps it: who allocated the live memory, and what the allocator
// did.
//
// It is kept for all devices and threads, while record_memory_history has switched it on. Stacks are gathered on the
// thread that allocates or frees, with the GIL, before any lock; so no caller of the allocator may wait, with a lock
// that a thread with the GIL may want. Thread-safe.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/api.h"

namespace mydev {

struct HistorySettings {
  bool events = true;  // else only who allocated what is alive
  enum class Stacks : uint8_t { kNone, kLive, kAllocations, kAll } stacks = Stacks::kAll;
  bool cpp_frames = false;
  size_t max_events = SIZE_MAX;   // of each device; the oldest go
  std::set<std::string> skipped;  // actions
};
// std::nullopt ends the history and drops what was kept, as `clear` does.
MYDEV_API void record_memory_history(const std::optional<HistorySettings>& settings, bool clear);

using MemoryContext = std::shared_ptr<c10::GatheredContext>;

struct HistoryEvent {
  const char* action;  // torch.cuda's words: "alloc", "segment_free", "oom", ...
  uintptr_t address;   // of "oom": what the driver says is free
  size_t size;
  int64_t stream;
  int64_t time_us;  // since 1970
  MemoryContext context;
  std::string metadata;  // the thread's at that time; of "annotate", the annotation
};
struct MemoryHistory {
  std::vector<std::vector<HistoryEvent>> events;                // by device, oldest first
  std::map<std::pair<int, uintptr_t>, MemoryContext> contexts;  // of what is alive, by device and address
};
MYDEV_API MemoryHistory memory_history();

// The calling thread's, which all its later events carry; "" for none.
MYDEV_API void set_memory_metadata(std::string metadata);
MYDEV_API const std::string& memory_metadata();
// An event "annotate" of the calling thread, about memory that is alive. Does nothing while nothing is recorded.
MYDEV_API void annotate_memory(int device, uintptr_t address, size_t size, std::string annotation);

// Called, with no lock held, when an allocation fails: device, bytes asked for, bytes that the device has, and of these
// bytes free. Stays for the process.
using OutOfMemoryObserver = std::function<void(int device, size_t asked, size_t total, size_t free)>;
MYDEV_API void attach_out_of_memory_observer(OutOfMemoryObserver observer);

}  // namespace mydev
