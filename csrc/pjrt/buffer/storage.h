// Memory of buffers: the allocator's, pinned or ordinary memory of the host, or someone else's.
//
// It is released when the last reference is gone. The allocator's memory is then free for later work of its stream, so
// that submitted work needs no reference. All other memory must be held until the work is done.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "pjrt/device/platform.h"
#include "runtime/memory/caching_allocator.h"

namespace mydev::pjrt {

class Storage;
using SharedStorage = std::shared_ptr<Storage>;

class Storage {
 public:
  // Raises RESOURCE_EXHAUSTED.
  static SharedStorage allocate(PJRT_Memory& memory, uint64_t bytes);
  // `release`, if given, is called once, on any thread.
  static SharedStorage of_others(void* data, uint64_t bytes, std::function<void()> release);

  Storage(Block& block, uint64_t bytes) noexcept : data_(block.data), bytes_(bytes), block_(&block) {}
  Storage(void* data, uint64_t bytes, std::function<void()> release) noexcept
      : data_(data), bytes_(bytes), release_(std::move(release)) {}
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const noexcept { return data_; }
  uint64_t bytes() const noexcept { return bytes_; }
  // The allocator's; only such memory may be donated to a program.
  bool stream_ordered() const noexcept { return block_ != nullptr; }

  // Others in the process use it in place until they give it back, whatever becomes of its buffers. Thread-safe.
  void lend() noexcept { loans_.fetch_add(1, std::memory_order_relaxed); }
  // Release, for lent(): the borrower's accesses come before those of the next writer.
  void take_back() noexcept { loans_.fetch_sub(1, std::memory_order_release); }
  bool lent() const noexcept { return loans_.load(std::memory_order_acquire) != 0; }  // the memory has its own order
  // Work of another stream uses it: the allocator's memory is not reused before that is done.
  void record_use(Stream& stream);

 private:
  void* data_;
  uint64_t bytes_;
  Block* block_ = nullptr;
  std::function<void()> release_;
  std::atomic<int> loans_{0};
};

}  // namespace mydev::pjrt
