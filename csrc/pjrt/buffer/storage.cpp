#include "pjrt/buffer/storage.h"

#include <array>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/base/status.h"

namespace mydev::pjrt {

namespace {

constexpr size_t kHostAlignment = 64;

std::shared_ptr<void> ordinary_memory(uint64_t bytes) {
  const uint64_t rounded = (bytes + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
  void* data = std::aligned_alloc(kHostAlignment, rounded);
  MYDEV_CHECK(data != nullptr, MYDEV_RESOURCE_EXHAUSTED, "the host has no ", bytes, " bytes of memory");
  return {data, std::free};
}

// Blocks whose sizes are powers of two. Pinning is slow, and each copy of an asynchronous device needs some.
class PinnedPool {
 public:
  explicit PinnedPool(const mydev::Device& device) : device_(device) {}

  std::shared_ptr<void> take(uint64_t bytes) {
    const int size_class = std::bit_width(std::max(bytes, kSmallest) - 1);
    const uint64_t rounded = uint64_t{1} << size_class;
    void* data = take_idle(size_class);
    if (data == nullptr) check_driver(device_, device_.driver->host_alloc(rounded, &data), "allocating pinned memory");
    return {data, [this, size_class](void* block) { put_back(block, size_class); }};
  }

 private:
  static constexpr uint64_t kSmallest = 4096;
  static constexpr uint64_t kMostIdle = uint64_t{256} << 20;  // bytes

  void* take_idle(int size_class) {
    const std::lock_guard lock(mutex_);
    std::vector<void*>& idle = idle_[static_cast<size_t>(size_class)];
    if (idle.empty()) return nullptr;
    void* data = idle.back();
    idle.pop_back();
    idle_bytes_ -= uint64_t{1} << size_class;
    return data;
  }

  void put_back(void* data, int size_class) {
    const uint64_t bytes = uint64_t{1} << size_class;
    {
      const std::lock_guard lock(mutex_);
      if (idle_bytes_ + bytes <= kMostIdle) {
        idle_[static_cast<size_t>(size_class)].push_back(data);
        idle_bytes_ += bytes;
        return;
      }
    }
    device_.driver->host_free(data, bytes);
  }

  const mydev::Device& device_;
  std::mutex mutex_;  // guards what follows
  std::array<std::vector<void*>, 64> idle_;
  uint64_t idle_bytes_ = 0;
};

}  // namespace

std::shared_ptr<void> pinned_memory(const mydev::Device& device, uint64_t bytes) {
  if (device.driver->host_alloc == nullptr || bytes == 0) return ordinary_memory(std::max<uint64_t>(bytes, 1));
  static PinnedPool& pool = *new PinnedPool(device);  // one driver, whose pinned memory any of its devices reaches
  return pool.take(bytes);
}

SharedStorage Storage::allocate(PJRT_Memory& memory, uint64_t bytes) {
  if (!memory.on_host()) return std::make_shared<Storage>(*mydev::allocate(memory.device->stream, bytes), bytes);
  std::shared_ptr<void> data = memory.kind == MemoryKind::kPinnedHost ? pinned_memory(memory.device->device, bytes)
                                                                      : ordinary_memory(std::max<uint64_t>(bytes, 1));
  void* address = data.get();
  return of_others(address, bytes, [data = std::move(data)] {});
}

SharedStorage Storage::of_others(void* data, uint64_t bytes, std::function<void()> release) {
  return std::make_shared<Storage>(data, bytes, std::move(release));
}

void Storage::record_use(Stream& stream) {
  if (block_ != nullptr) record_stream(*block_, stream);
}

Storage::~Storage() {
  if (block_ != nullptr) {
    release(*block_);
  } else if (release_) {
    release_();
  }
}

}  // namespace mydev::pjrt
