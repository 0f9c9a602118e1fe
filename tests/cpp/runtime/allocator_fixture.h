// Fixture of the allocator's tests: two asynchronous host devices of 256 MiB each, and every test leaves them empty.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>

#include "runtime/command/launch.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

inline constexpr size_t kKiB = 1024;
inline constexpr size_t kMiB = 1024 * kKiB;

[[maybe_unused]] inline const int driver_chosen = setenv("MYDEV_DRIVER", "host:devices=2,memory=256M,async", 1);

struct Releaser {
  void operator()(Block* block) const { release(*block); }
};
using OwnedBlock = std::unique_ptr<Block, Releaser>;

inline OwnedBlock make(size_t bytes, Stream& stream = default_stream(0)) {
  return OwnedBlock(allocate(stream, bytes));
}

inline int64_t allocated_bytes(int device = 0) {
  return allocator_stats(device).allocated_bytes.all.current;
}
inline int64_t reserved_bytes(int device = 0) {
  return allocator_stats(device).reserved_bytes.all.current;
}

// Keeps a stream busy until released.
class Blocker {
 public:
  explicit Blocker(Stream& stream) : stream_(stream) {
    open_.store(false);
    mydev_frame frame = make_frame({}, 0);
    launch(kKernel, frame, stream);
  }
  ~Blocker() { release(); }
  void release() {
    open_.store(true);
    open_.notify_all();
    stream_.synchronize();
  }

 private:
  static mydev_code wait(const mydev_frame*) {
    open_.wait(false);
    return MYDEV_OK;
  }
  static inline std::atomic<bool> open_{true};
  static constexpr mydev_kernel kKernel = {.struct_size = sizeof(mydev_kernel),
                                           .name = "test.blocker",
                                           .entry = wait,
                                           .scratch_bytes = nullptr,
                                           .doc = nullptr,
                                           .driver_data = nullptr};
  Stream& stream_;
};

// A driver for device 0 whose calls can be made to fail.
class FailingDriver {
 public:
  FailingDriver() : original_(device(0).driver) {
    altered_ = *original_;
    current_ = this;
    device(0).driver = &altered_;
  }
  ~FailingDriver() { device(0).driver = original_; }

  void fail_alloc(mydev_code code) {
    alloc_code_ = code;
    altered_.memory_alloc = [](int32_t, uint64_t, void**) { return current_->alloc_code_; };
  }
  void fail_free() {
    altered_.memory_free = [](int32_t, void*, uint64_t) { return MYDEV_INTERNAL; };
  }
  void fail_event_record() {
    altered_.event_record = [](mydev_event, mydev_stream) { return MYDEV_INTERNAL; };
  }

 private:
  static inline FailingDriver* current_ = nullptr;
  const mydev_driver_api* original_;
  mydev_driver_api altered_;
  mydev_code alloc_code_ = MYDEV_OK;
};

class CachingAllocator : public testing::Test {
 protected:
  void SetUp() override {
    set_allocator_settings({});
    for (int index : {0, 1}) {
      set_memory_fraction(index, 1.0);
      empty_cache(index);
      ASSERT_EQ(allocated_bytes(index), 0);
      ASSERT_EQ(reserved_bytes(index), 0);
      reset_accumulated_stats(index);
      reset_peak_stats(index);
    }
  }
  // Every test gives back what it took.
  void TearDown() override {
    for (int index : {0, 1}) {
      EXPECT_EQ(allocated_bytes(index), 0);
      empty_cache(index);
      EXPECT_EQ(reserved_bytes(index), 0);
      uint64_t free_bytes = 0;
      uint64_t total_bytes = 0;
      memory_info(index, free_bytes, total_bytes);
      EXPECT_EQ(free_bytes, total_bytes);
    }
  }
};

}  // namespace mydev
