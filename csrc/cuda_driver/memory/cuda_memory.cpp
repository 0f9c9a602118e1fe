#include "cuda_driver/memory/cuda_memory.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>

#include "cuda_driver/device/cuda_device.h"

namespace mydev::cuda_driver {

namespace {

constexpr int32_t kHost = -1;

// Memory that was allocated or registered, with the sizes that were asked for.
class Ranges {
 public:
  struct Range {
    uint64_t bytes;
    int32_t device;  // kHost: page-locked memory
    uintptr_t begin = 0;
  };

  void add(const void* data, uint64_t bytes, int32_t device) {
    const std::lock_guard lock(mutex_);
    ranges_[reinterpret_cast<uintptr_t>(data)] = {bytes, device};
  }
  void remove(const void* data) {
    const std::lock_guard lock(mutex_);
    ranges_.erase(reinterpret_cast<uintptr_t>(data));
  }
  std::optional<Range> find(const void* pointer) const {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    const std::shared_lock lock(mutex_);
    auto next = ranges_.upper_bound(address);
    if (next == ranges_.begin()) return std::nullopt;
    const auto& [begin, range] = *--next;
    if (address - begin >= range.bytes) return std::nullopt;
    return Range{range.bytes, range.device, begin};
  }

 private:
  mutable std::shared_mutex mutex_;
  std::map<uintptr_t, Range> ranges_;
};

Ranges& ranges() {
  static Ranges& all = *new Ranges;
  return all;
}

// Describes memory that this driver did not allocate: another user's of CUDA in this process.
void describe_foreign(const void* pointer, mydev_pointer_info& info) {
  const CudaApi& api = cuda();
  const DevicePointer address = as_device(pointer);
  unsigned type = 0;
  int ordinal = -1;
  DevicePointer begin = 0;
  size_t bytes = 0;
  if (api.cuPointerGetAttribute(&type, kPointerMemoryType, address) != kSuccess) return;
  if (api.cuPointerGetAttribute(&ordinal, kPointerOrdinal, address) != kSuccess) return;
  if (api.cuPointerGetAttribute(&begin, kPointerBegin, address) != kSuccess) return;
  if (api.cuPointerGetAttribute(&bytes, kPointerBytes, address) != kSuccess) return;
  const CudaDevice* device = device_of_ordinal(ordinal);
  const bool on_device = type == kMemoryTypeDevice;
  if (on_device && device == nullptr) return;
  info.kind = on_device ? MYDEV_MEMORY_DEVICE : MYDEV_MEMORY_PINNED;
  info.device = on_device ? device->index() : -1;
  info.base = reinterpret_cast<void*>(begin);
  info.bytes = bytes;
}

}  // namespace

mydev_code memory_alloc(int32_t device, uint64_t bytes, void** out_data) {
  return run_checked([&] {
    CudaDevice& on = device_at(device);
    const CurrentContext context(on);
    DevicePointer pointer = 0;
    check(cuda().cuMemAlloc(&pointer, bytes), "cuMemAlloc of ", bytes, " bytes on device ", on.ordinal());
    *out_data = reinterpret_cast<void*>(pointer);
    ranges().add(*out_data, bytes, device);
  });
}

mydev_code memory_free(int32_t device, void* data, uint64_t bytes) {
  return run_checked([&] {
    const CurrentContext context(device_at(device));
    ranges().remove(data);
    check_given_back(cuda().cuMemFree(as_device(data)), "cuMemFree of ", bytes, " bytes at ", data);
  });
}

mydev_code memory_info(int32_t device, uint64_t* out_free, uint64_t* out_total) {
  return run_checked([&] {
    const CurrentContext context(device_at(device));
    size_t free = 0, total = 0;
    check(cuda().cuMemGetInfo(&free, &total), "cuMemGetInfo");
    *out_free = free;
    *out_total = total;
  });
}

PinnedWords make_pinned_words(size_t count) {
  void* data = nullptr;
  if (const mydev_code code = host_alloc(count * sizeof(uint32_t), &data); code != MYDEV_OK) raise(code, last_error());
  auto* const words = static_cast<uint32_t*>(data);
  std::fill_n(words, count, 0);
  return PinnedWords(words);
}

bool is_pinned(const void* pointer) {
  const auto range = ranges().find(pointer);
  return range && range->device == kHost;
}

mydev_code host_alloc(uint64_t bytes, void** out_data) {
  return run_checked([&] {
    const CurrentContext context(device_at(0));
    void* data = nullptr;
    check(cuda().cuMemHostAlloc(&data, bytes, kHostPortable | kHostDeviceMap), "cuMemHostAlloc of ", bytes, " bytes");
    ranges().add(data, bytes, kHost);
    *out_data = data;
  });
}

mydev_code host_free(void* data, uint64_t /*bytes*/) {
  return run_checked([&] {
    const CurrentContext context(device_at(0));
    ranges().remove(data);
    check_given_back(cuda().cuMemFreeHost(data), "cuMemFreeHost of ", data);
  });
}

mydev_code host_register(void* data, uint64_t bytes) {
  return run_checked([&] {
    const CurrentContext context(device_at(0));
    check(cuda().cuMemHostRegister(data, bytes, kHostPortable), "cuMemHostRegister of ", bytes, " bytes at ", data);
    ranges().add(data, bytes, kHost);
  });
}

mydev_code host_unregister(void* data, uint64_t /*bytes*/) {
  return run_checked([&] {
    const CurrentContext context(device_at(0));
    check_given_back(cuda().cuMemHostUnregister(data), "cuMemHostUnregister of ", data);
    ranges().remove(data);
  });
}

mydev_code pointer_info(const void* pointer, mydev_pointer_info* out) {
  return run_checked([&] {
    mydev_pointer_info info{out->struct_size, MYDEV_MEMORY_ORDINARY, -1, nullptr, 0};
    if (const auto range = ranges().find(pointer)) {
      info.kind = range->device == kHost ? MYDEV_MEMORY_PINNED : MYDEV_MEMORY_DEVICE;
      info.device = range->device;
      info.base = reinterpret_cast<void*>(range->begin);
      info.bytes = range->bytes;
    } else {
      describe_foreign(pointer, info);
    }
    *out = info;
  });
}

}  // namespace mydev::cuda_driver
