#include "runtime/command/pending_launch.h"

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>
#include <utility>

#include "runtime/base/source_location.h"
#include "runtime/command/launch_errors.h"
#include "runtime/frame/kernel_messages.h"

namespace mydev::detail {

namespace {

constexpr size_t kBlockBytes = 1024;  // of nearly all frames; larger ones come from the heap

// Blocks are taken under a lock that nobody holds for more than some instructions. They are given back without a lock,
// to a stack that any thread pushes to and that is only ever taken as a whole.
class BlockPool {
 public:
  void* take() {
    while (taking_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
    if (free_ == nullptr) free_ = returned_.exchange(nullptr, std::memory_order_acquire);
    Block* block = free_;
    if (block != nullptr) free_ = block->next;
    taking_.clear(std::memory_order_release);
    return block != nullptr ? block : ::operator new(kBlockBytes);
  }
  void give(void* memory) noexcept {
    Block* block = new (memory) Block{returned_.load(std::memory_order_relaxed)};
    while (!returned_.compare_exchange_weak(block->next, block, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }

 private:
  struct Block {
    Block* next;
  };
  std::atomic_flag taking_;
  Block* free_ = nullptr;  // of the one who holds taking_
  std::atomic<Block*> returned_{nullptr};
};

// Never destroyed: launches end until the process is gone.
BlockPool& pool() {
  static BlockPool& instance = *new BlockPool;
  return instance;
}

}  // namespace

PendingLaunch& PendingLaunch::make(const mydev_kernel& kernel, const mydev_frame& frame, Stream& stream,
                                   Decision decision) {
  constexpr size_t kHead = (sizeof(PendingLaunch) + 15) & ~size_t{15};
  const size_t bytes = kHead + cloned_bytes(frame);
  const bool pooled = bytes <= kBlockBytes;
  void* memory = pooled ? pool().take() : ::operator new(bytes);
  auto* launch = new (memory) PendingLaunch(kernel, stream, std::move(decision), source_location());
  launch->pooled_ = pooled;
  launch->frame_ = clone_frame_into(frame, static_cast<char*>(memory) + kHead);
  launch->frame_->launch = static_cast<LaunchCompletion*>(launch);
  return *launch;
}

void PendingLaunch::release() noexcept {
  const bool pooled = pooled_;
  this->~PendingLaunch();
  if (pooled) {
    pool().give(this);
  } else {
    ::operator delete(this);
  }
}

void PendingLaunch::complete(mydev_frame* frame, mydev_code code) {
  if (code == MYDEV_OK) {
    forget_kernel_message(*frame);
  } else {
    LaunchFailure failure = describe_launch_failure(kernel_, *frame, stream_.device(), code, line_);
    stream_.set_error(code, std::move(failure.message), failure.owner);
  }
  release();
}

}  // namespace mydev::detail
