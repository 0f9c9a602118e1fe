#include "aten/memory/pinned_memory.h"

#include <ATen/core/CachingHostAllocator.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "aten/core/device_type.h"
#include "runtime/base/interval_map.h"
#include "runtime/base/status.h"
#include "runtime/driver/device.h"
#include "runtime/stream/event.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

constexpr size_t kPageSize = 4096;

// Ranges of memory that the driver has pinned, for is_pinned_pointer.
class PinnedRanges {
 public:
  void add(const void* data, size_t bytes) {
    const std::lock_guard guard(mutex_);
    ranges_.insert(data, bytes);
  }
  void remove(const void* data) {
    const std::lock_guard guard(mutex_);
    ranges_.extract(data);
  }
  bool contain(const void* data) {
    const std::lock_guard guard(mutex_);
    return ranges_.contains(data);
  }

 private:
  std::mutex mutex_;
  IntervalMap<> ranges_;
};

PinnedRanges& pinned_ranges() {
  static PinnedRanges& instance = *new PinnedRanges;  // pinned tensors may be freed at the very end of the process
  return instance;
}

using HostBlock = at::HostBlock<c10::Stream>;

struct HostAllocatorImpl final : at::CachingHostAllocatorImpl<c10::Stream, std::unique_ptr<Event>> {
  void copy_data(void* dst, const void* src, size_t bytes) const override { std::memcpy(dst, src, bytes); }

 private:
  // A driver without pinned memory of its own gets ordinary host memory.
  void allocate_host_memory(size_t bytes, void** data) override {
    Device& device = current_device_object();
    if (device.driver->host_alloc != nullptr) {
      check_driver(device, device.driver->host_alloc(bytes, data), "allocating pinned host memory");
    } else {
      *data = std::aligned_alloc(kPageSize, (bytes + kPageSize - 1) / kPageSize * kPageSize);
      MYDEV_CHECK(*data != nullptr, MYDEV_RESOURCE_EXHAUSTED, "out of host memory: tried to allocate ", bytes,
                  " bytes of pinned memory");
    }
    pinned_ranges().add(*data, bytes);
  }
  void free_block(HostBlock* block) override {
    pinned_ranges().remove(block->ptr_);
    Device& device = current_device_object();
    if (device.driver->host_free != nullptr) {
      check_driver(device, device.driver->host_free(block->ptr_, block->size_), "freeing pinned host memory");
    } else {
      std::free(block->ptr_);
    }
  }
  void record_stream(std::optional<std::vector<std::unique_ptr<Event>>>& events, c10::Stream stream) override {
    std::unique_ptr<Event> event;  // none: nothing to wait for
    try {
      Stream& used = stream_by_id(stream.device_index(), stream.id());
      if (used.asynchronous()) {
        event = std::make_unique<Event>(used.device().index, /*timing=*/false);
        event->record(used);
      }
    } catch (const std::exception&) {
      event = nullptr;  // the stream was released, or its device is lost; and a deleter must not throw
    }
    events->push_back(std::move(event));
  }
  bool query_event(std::unique_ptr<Event>& event) override { return event == nullptr || event->query(); }
  c10::Stream get_current_stream() const override {
    const int device = current_device();
    return c10::Stream(c10::Stream::UNSAFE, torch_device(device), current_stream(device).id());
  }
  bool stream_is_capturing(c10::Stream) const override { return false; }
};

void free_pinned(void* context);

using HostAllocator = at::CachingHostAllocatorInterface<HostAllocatorImpl, free_pinned>;

// Never destroyed, for the same reason as the ranges.
HostAllocator& host_allocator() {
  static HostAllocator& instance = *new HostAllocator;
  return instance;
}

void free_pinned(void* context) {
  host_allocator().free(context);
}

[[maybe_unused]] const bool pinned_memory_registered = [] {
  at::setHostAllocator(kDeviceType, &host_allocator());
  return true;
}();

}  // namespace

c10::Allocator* pinned_memory_allocator() {
  return &host_allocator();
}

bool is_pinned_pointer(const void* data) {
  return pinned_ranges().contain(data) || driver_pointer_info(data).kind == MYDEV_MEMORY_PINNED;
}

}  // namespace mydev
