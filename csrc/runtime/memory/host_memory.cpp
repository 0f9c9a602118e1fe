#include "runtime/memory/host_memory.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "runtime/base/status.h"

namespace mydev {

namespace {

constexpr size_t kHostAlignment = 64;

// Blocks whose sizes are powers of two. Pinning is slow, and each copy of an asynchronous device needs some. A block
// may come back in a host call of a stream, which must not call the driver: taking one gives back what is too much.
class PinnedPool {
 public:
  explicit PinnedPool(const Device& device) : device_(device) {}

  std::shared_ptr<void> take(uint64_t bytes) {
    const auto size_class = static_cast<size_t>(std::bit_width(std::max(bytes, kSmallest) - 1));
    const uint64_t rounded = uint64_t{1} << size_class;
    void* data = take_idle(size_class);
    if (data == nullptr) check_driver(device_, device_.driver->host_alloc(rounded, &data), "allocating pinned memory");
    return {data, [this, size_class](void* block) { put_back(block, size_class); }};
  }

 private:
  static constexpr uint64_t kSmallest = 4096;
  static constexpr uint64_t kMostIdle = uint64_t{256} << 20;  // bytes

  void* take_idle(size_t size_class) {
    const std::lock_guard lock(mutex_);
    void* data = idle_[size_class].empty() ? nullptr : remove_idle(size_class);
    for (size_t largest = idle_.size(); idle_bytes_ > kMostIdle; --largest) {
      while (!idle_[largest - 1].empty() && idle_bytes_ > kMostIdle) {
        device_.driver->host_free(remove_idle(largest - 1), uint64_t{1} << (largest - 1));
      }
    }
    return data;
  }

  void* remove_idle(size_t size_class) {
    void* data = idle_[size_class].back();
    idle_[size_class].pop_back();
    idle_bytes_ -= uint64_t{1} << size_class;
    return data;
  }

  void put_back(void* data, size_t size_class) {
    const std::lock_guard lock(mutex_);
    idle_[size_class].push_back(data);
    idle_bytes_ += uint64_t{1} << size_class;
  }

  const Device& device_;
  std::mutex mutex_;  // guards what follows
  std::array<std::vector<void*>, 64> idle_;
  uint64_t idle_bytes_ = 0;
};

}  // namespace

std::shared_ptr<void> host_memory(uint64_t bytes) {
  const uint64_t wanted = std::clamp<uint64_t>(bytes, 1, UINT64_MAX - kHostAlignment);
  void* data = std::aligned_alloc(kHostAlignment, (wanted + kHostAlignment - 1) / kHostAlignment * kHostAlignment);
  MYDEV_CHECK(data != nullptr, MYDEV_RESOURCE_EXHAUSTED, "the host has no ", bytes, " bytes of memory");
  return {data, std::free};
}

std::shared_ptr<void> pinned_memory(const Device& device, uint64_t bytes) {
  if (device.driver->host_alloc == nullptr || bytes == 0) return host_memory(bytes);
  static PinnedPool& pool = *new PinnedPool(device);  // one driver, whose pinned memory any of its devices reaches
  return pool.take(bytes);
}

}  // namespace mydev
