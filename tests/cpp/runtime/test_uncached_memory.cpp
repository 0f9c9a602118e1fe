// The allocator while nothing is cached: each block is the driver's, and what is freed goes back to it.
#include <thread>

#include "allocator_fixture.h"
#include "runtime/memory/caching_switch.h"
#include "runtime/memory/entered_pools.h"
#include "runtime/memory/private_pool.h"

namespace mydev {
namespace {

class UncachedMemory : public CachingAllocator {
 protected:
  void SetUp() override {
    CachingAllocator::SetUp();
    set_memory_caching(false);
  }
  void TearDown() override {
    set_memory_caching(true);
    CachingAllocator::TearDown();
  }
};

class UncachedSizes : public UncachedMemory, public testing::WithParamInterface<size_t> {};
INSTANTIATE_TEST_SUITE_P(SmallMediumLarge, UncachedSizes, testing::Values(1, 100, 700, kMiB, 3 * kMiB, 30 * kMiB));

TEST_P(UncachedSizes, BlockIsASegmentOfItsOwnAndGoesBackWhenItsStreamHasPassed) {
  OwnedBlock block = make(GetParam());
  EXPECT_EQ(block->size, (GetParam() + 63) / 64 * 64);
  EXPECT_EQ(find_block(block->data), block.get());
  EXPECT_EQ(reserved_bytes(), static_cast<int64_t>(block->size));
  EXPECT_EQ(allocated_bytes(), static_cast<int64_t>(block->size));
  block.reset();
  default_stream(0).synchronize();
  const AllocatorStats stats = allocator_stats(0);
  EXPECT_EQ(stats.num_device_alloc, 1);
  EXPECT_EQ(stats.num_device_free, 1);
  for (const PoolStats* figure : {&stats.reserved_bytes, &stats.allocated_bytes, &stats.active_bytes,
                                  &stats.requested_bytes, &stats.inactive_split_bytes}) {
    EXPECT_EQ(figure->all.current, 0);
  }
}

TEST_F(UncachedMemory, FreeWaitsForTheStreamAndNobodyWaitsForTheFree) {
  OwnedBlock block = make(100);
  const auto size = static_cast<int64_t>(block->size);
  Blocker blocker(default_stream(0));
  block.reset();
  EXPECT_EQ(reserved_bytes(), size);
  EXPECT_EQ(allocated_bytes(), 0);
  EXPECT_EQ(allocator_stats(0).active_bytes.all.current, size);
  const OwnedBlock other = make(100);
  blocker.release();
  EXPECT_EQ(reserved_bytes(), size) << "of the second block";
}

TEST_F(UncachedMemory, FreeWaitsForOtherStreamsToo) {
  Stream& other = stream_from_pool(0, 0);
  OwnedBlock block = make(2 * kMiB);
  Blocker blocker(other);
  record_stream(*block, other);
  block.reset();
  default_stream(0).synchronize();
  EXPECT_EQ(reserved_bytes(), int64_t{2 * kMiB});
  blocker.release();
  EXPECT_EQ(reserved_bytes(), 0);
}

TEST_F(UncachedMemory, BlockKeepsToHowItWasAllocated) {
  set_memory_caching(true);
  OwnedBlock cached = make(100);
  set_memory_caching(false);
  OwnedBlock uncached = make(100);
  EXPECT_EQ(reserved_bytes(), int64_t{2 * kMiB + 128});
  cached.reset();
  set_memory_caching(true);
  uncached.reset();
  default_stream(0).synchronize();
  EXPECT_EQ(reserved_bytes(), int64_t{2 * kMiB});
}

TEST_F(UncachedMemory, WhatIsCachedServesWhereTheDriverHasNoMore) {
  set_memory_caching(true);
  OwnedBlock large = make(200 * kMiB);
  large.reset();
  EXPECT_EQ(reserved_bytes(), int64_t{200 * kMiB});
  set_memory_caching(false);
  large = make(150 * kMiB);
  EXPECT_EQ(allocator_stats(0).num_ooms, 0);
}

TEST_F(UncachedMemory, OutOfMemoryWaitsForWhatIsBeingFreed) {
  OwnedBlock first = make(200 * kMiB);
  first.reset();
  const OwnedBlock second = make(200 * kMiB);
  EXPECT_NE(second->data, nullptr);
  EXPECT_EQ(allocator_stats(0).num_ooms, 0);
}

TEST_F(UncachedMemory, WhatThreadsAllocateGoesBackWhoeverFreesIt) {
  OwnedBlock block;
  std::thread([&] { block = make(100); }).join();
  EXPECT_EQ(reserved_bytes(), 128);
  block.reset();
  default_stream(0).synchronize();
  EXPECT_EQ(reserved_bytes(), 0);
}

TEST_F(UncachedMemory, PoolKeepsItsMemory) {
  auto pool = PrivatePool::make({});
  enter_pool(0, pool);
  make(100);
  leave_pool(0, pool->id());
  default_stream(0).synchronize();
  EXPECT_EQ(reserved_bytes(), int64_t{2 * kMiB});
  pool.reset();
}

TEST_F(UncachedMemory, WhatTheDriverDoesNotTakeBackStaysCached) {
  OwnedBlock block = make(2 * kMiB);
  void* const data = block->data;
  {
    FailingDriver driver;
    driver.fail_free();
    block.reset();
    default_stream(0).synchronize();
    EXPECT_EQ(reserved_bytes(), int64_t{2 * kMiB});
  }
  set_memory_caching(true);
  block = make(2 * kMiB);
  EXPECT_EQ(block->data, data);
}

}  // namespace
}  // namespace mydev
