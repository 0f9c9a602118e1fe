// The caching allocator: sizes, reuse, streams, looking up.
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "allocator_fixture.h"
#include "error_fixture.h"
#include "runtime/base/status.h"
#include "runtime/memory/size_classes.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

// --- sizes -----------------------------------------------------------------------------------------------------------

TEST(SizeClasses, EachClassHoldsExactlyTheSizesAboveThePreviousOne) {
  for (int c = 0; c < kSizeClasses; ++c) {
    EXPECT_EQ(size_class(class_size(c)), c);
    EXPECT_EQ(size_class(class_size(c) + 1), c + 1) << class_size(c);
    EXPECT_EQ(class_size(c) % kSmallGranularity, 0U);
  }
  EXPECT_EQ(class_size(0), 64U);
  EXPECT_EQ(class_size(7), 512U);
  EXPECT_EQ(class_size(8), 640U);
  EXPECT_EQ(class_size(kSizeClasses - 1), kSmallLimit);
}

TEST(SizeClasses, RoundingWastesAtMostAQuarterAbove512Bytes) {
  for (size_t bytes = 513; bytes <= kSmallLimit; bytes += 97) {
    EXPECT_LE(class_size(size_class(bytes)) - bytes, bytes / 4) << bytes;
  }
}

TEST(SizeClasses, PowerOfTwoDivisionsRoundUpToTheNextStep) {
  EXPECT_EQ(round_up_power2(1200, 4), 1280U);
  EXPECT_EQ(round_up_power2(1024, 4), 1024U);
  EXPECT_EQ(round_up_power2(2047, 4), 2048U);
  EXPECT_EQ(round_up_power2(1100, 2), 1536U);
}

struct SizeCase {
  size_t requested, size, segment;
};
class BlockSizes : public CachingAllocator, public testing::WithParamInterface<SizeCase> {};

TEST_P(BlockSizes, RequestIsRoundedAndItsSegmentHasTheDocumentedSize) {
  const auto [requested, size, segment] = GetParam();
  const OwnedBlock block = make(requested);
  EXPECT_EQ(block->requested, requested);
  EXPECT_EQ(block->size, size);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block->data) % 64, 0U);
  EXPECT_EQ(reserved_bytes(), static_cast<int64_t>(segment));
  EXPECT_EQ(allocated_bytes(), static_cast<int64_t>(size));
}

INSTANTIATE_TEST_SUITE_P(, BlockSizes,
                         testing::Values(SizeCase{1, 64, 2 * kMiB}, SizeCase{65, 128, 2 * kMiB},
                                         SizeCase{513, 640, 2 * kMiB}, SizeCase{kMiB, kMiB, 2 * kMiB},
                                         SizeCase{kMiB + 1, kMiB + 512, 20 * kMiB},
                                         SizeCase{10 * kMiB - 512, 10 * kMiB - 512, 20 * kMiB},
                                         SizeCase{10 * kMiB, 10 * kMiB, 10 * kMiB},
                                         SizeCase{31 * kMiB, 32 * kMiB, 32 * kMiB}));

TEST_F(CachingAllocator, ZeroBytesGiveABlockWithoutMemory) {
  const OwnedBlock block = make(0);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->data, nullptr);
  EXPECT_EQ(block->size, 0U);
  EXPECT_EQ(block->framework_alias.load(), nullptr);
  EXPECT_EQ(allocator_stats(0).allocation.all.current, 0);
}

TEST_F(CachingAllocator, AbsurdSizeIsOutOfMemory) {
  EXPECT_EQ(error_of([] { make(SIZE_MAX - 10); }).code(), MYDEV_RESOURCE_EXHAUSTED);
}

// --- reuse -----------------------------------------------------------------------------------------------------------

class Reuse : public CachingAllocator, public testing::WithParamInterface<size_t> {};
INSTANTIATE_TEST_SUITE_P(SmallMediumLarge, Reuse, testing::Values(100, kMiB, 3 * kMiB, 30 * kMiB));

TEST_P(Reuse, FreedBlockServesTheNextRequestOnItsStreamWithoutTheDriver) {
  OwnedBlock block = make(GetParam());
  void* const data = block->data;
  const int64_t calls = allocator_stats(0).num_device_alloc;
  block.reset();
  block = make(GetParam());
  EXPECT_EQ(block->data, data);
  EXPECT_EQ(allocator_stats(0).num_device_alloc, calls);
}

TEST_P(Reuse, AnotherStreamGetsOtherMemory) {
  Stream& other = stream_from_pool(0, 0);
  OwnedBlock block = make(GetParam());
  void* const data = block->data;
  block.reset();
  const OwnedBlock elsewhere = make(GetParam(), other);
  EXPECT_NE(elsewhere->data, data);
  EXPECT_EQ(make(GetParam())->data, data);
}

TEST_P(Reuse, AliasSlotIsEmptyAgain) {
  OwnedBlock block = make(GetParam());
  block->framework_alias.store(&block);
  block.reset();
  EXPECT_EQ(make(GetParam())->framework_alias.load(), nullptr);
}

TEST_P(Reuse, BlockLivesUntilItsLastReferenceIsReleased) {
  OwnedBlock block = make(GetParam());
  const auto size = static_cast<int64_t>(block->size);
  retain(*block);
  Block* second = block.get();
  block.reset();
  EXPECT_EQ(allocated_bytes(), size);
  release(*second);
  EXPECT_EQ(allocated_bytes(), 0);
}

TEST_P(Reuse, BlockFreedOnAnotherThreadIsReusable) {
  OwnedBlock block = make(GetParam());
  const auto reserved = reserved_bytes();
  std::thread([&] { block.reset(); }).join();
  EXPECT_EQ(allocated_bytes(), 0);
  block = make(GetParam());
  EXPECT_EQ(reserved_bytes(), reserved);
}

TEST_F(CachingAllocator, SmallestFreeBlockThatFitsIsTaken) {
  OwnedBlock big = make(40 * kMiB);
  OwnedBlock fitting = make(24 * kMiB);
  void* const expected = fitting->data;
  big.reset();
  fitting.reset();
  EXPECT_EQ(make(23 * kMiB)->data, expected);
}

TEST_F(CachingAllocator, LargeBlockIsSplitAndItsRemainderIsUsed) {
  const OwnedBlock first = make(4 * kMiB);
  const OwnedBlock second = make(4 * kMiB);
  EXPECT_EQ(static_cast<char*>(second->data), static_cast<char*>(first->data) + 4 * kMiB);
  EXPECT_EQ(reserved_bytes(), int64_t{20 * kMiB});
}

class MergeOrders : public CachingAllocator, public testing::WithParamInterface<std::array<size_t, 3>> {};
INSTANTIATE_TEST_SUITE_P(, MergeOrders,
                         testing::Values(std::array<size_t, 3>{0, 1, 2}, std::array<size_t, 3>{2, 1, 0},
                                         std::array<size_t, 3>{0, 2, 1}, std::array<size_t, 3>{1, 0, 2}));

TEST_P(MergeOrders, NeighboursMergeIntoOneBlockHoweverTheyAreFreed) {
  std::array<OwnedBlock, 3> blocks{make(6 * kMiB), make(6 * kMiB), make(8 * kMiB)};
  void* const start = blocks[0]->data;
  for (const size_t i : GetParam()) blocks[i].reset();
  EXPECT_EQ(allocator_stats(0).inactive_split.all.current, 0);
  ASSERT_EQ(memory_snapshot().size(), 1U);
  EXPECT_EQ(memory_snapshot()[0].blocks.size(), 1U);
  const OwnedBlock whole = make(9 * kMiB);
  EXPECT_EQ(whole->data, start);
}

TEST_F(CachingAllocator, ThreadCacheIsBounded) {
  std::vector<OwnedBlock> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(make(kMiB));
  blocks.clear();
  // Blocks that the cache does not keep have merged in the pool, which another class of blocks may use.
  const int64_t reserved = reserved_bytes();
  for (int i = 0; i < 60; ++i) blocks.push_back(make(700 * kKiB));
  EXPECT_EQ(reserved_bytes(), reserved);
}

TEST_F(CachingAllocator, EndingThreadReturnsItsCache) {
  std::thread([] { make(kMiB); }).join();
  const int64_t reserved = reserved_bytes();
  EXPECT_EQ(reserved, int64_t{2 * kMiB});
  const OwnedBlock block = make(700 * kKiB);
  EXPECT_EQ(reserved_bytes(), reserved);
}

TEST_F(CachingAllocator, ThreadLocalDestructorsMayFreeAndAllocate) {
  struct Holder {
    OwnedBlock block;
    ~Holder() {
      block.reset();
      block = make(500);
      EXPECT_NE(block->data, nullptr);
    }
  };
  std::thread([] {
    thread_local Holder holder;  // made before the thread's caches, so destroyed after them
    static_cast<void>(holder.block);
    holder.block = make(500);
  }).join();
  EXPECT_EQ(allocated_bytes(), 0);
}

TEST_F(CachingAllocator, FirstAllocationOfAThreadIsAnnouncedOnce) {
  static std::atomic<int> calls{0};
  set_thread_cache_created_callback([] { ++calls; });
  std::thread([] {
    make(100);
    make(3 * kMiB);
    make(0);
  }).join();
  set_thread_cache_created_callback(nullptr);
  EXPECT_EQ(calls, 1);
}

TEST_F(CachingAllocator, EmptyCacheGivesUnusedSegmentsOfOneDeviceBack) {
  const OwnedBlock kept = make(100);
  make(3 * kMiB);
  make(3 * kMiB, default_stream(1));
  std::thread([] { make(100, stream_from_pool(0, 0)); }).join();
  empty_cache(0);
  EXPECT_EQ(reserved_bytes(0), int64_t{2 * kMiB});
  EXPECT_EQ(reserved_bytes(1), int64_t{20 * kMiB});
}

TEST_F(CachingAllocator, EmptyCacheReachesIntoCachesOfOtherThreads) {
  std::atomic<int> step{0};
  std::thread other([&] {
    make(100);
    step = 1;
    step.notify_all();
    step.wait(1);
  });
  step.wait(0);
  empty_cache(0);
  EXPECT_EQ(reserved_bytes(), 0);
  step = 2;
  step.notify_all();
  other.join();
}

// --- streams ---------------------------------------------------------------------------------------------------------

TEST_P(Reuse, RecordedStreamMustPassBeforeReuse) {
  Stream& side = stream_from_pool(0, 0);
  OwnedBlock block = make(GetParam());
  void* const data = block->data;
  const auto size = static_cast<int64_t>(block->size);
  Blocker blocker(side);
  record_stream(*block, side);
  block.reset();
  const AllocatorStats stats = allocator_stats(0);
  EXPECT_EQ(stats.allocated_bytes.all.current, 0);
  EXPECT_EQ(stats.active_bytes.all.current, size);
  EXPECT_EQ(stats.active.all.current, 1);
  EXPECT_NE(make(GetParam())->data, data);
  blocker.release();
  empty_cache(0);
  EXPECT_EQ(allocator_stats(0).active_bytes.all.current, 0);
  EXPECT_EQ(reserved_bytes(), 0);
}

TEST_F(CachingAllocator, DeferredFreeIsDoneOnceItsStreamHasPassed) {
  Stream& side = stream_from_pool(0, 0);
  OwnedBlock block = make(30 * kMiB);
  void* const data = block->data;
  Blocker blocker(side);
  record_stream(*block, side);
  record_stream(*block, side);
  block.reset();
  blocker.release();
  EXPECT_EQ(make(30 * kMiB)->data, data);
}

TEST_F(CachingAllocator, RecordingTheBlocksOwnStreamChangesNothing) {
  OwnedBlock block = make(30 * kMiB);
  void* const data = block->data;
  Blocker blocker(default_stream(0));
  record_stream(*block, default_stream(0));
  block.reset();
  EXPECT_EQ(make(30 * kMiB)->data, data);
}

TEST_F(CachingAllocator, RecordingOnABlockWithoutMemoryIsAllowed) {
  const OwnedBlock block = make(0);
  record_stream(*block, stream_from_pool(0, 0));
}

TEST_F(CachingAllocator, StreamOfAnotherDeviceMayBeRecorded) {
  Stream& peer = default_stream(1);
  OwnedBlock block = make(30 * kMiB);
  void* const data = block->data;
  Blocker blocker(peer);
  record_stream(*block, peer);
  block.reset();
  OwnedBlock meanwhile = make(30 * kMiB);
  EXPECT_NE(meanwhile->data, data);
  meanwhile.reset();
  blocker.release();
}

TEST_F(CachingAllocator, OutOfMemoryWaitsForDeferredFreesBeforeItGivesUp) {
  Stream& side = stream_from_pool(0, 0);
  OwnedBlock block = make(200 * kMiB);
  Blocker blocker(side);
  record_stream(*block, side);
  block.reset();
  std::atomic<bool> asked{false};
  std::thread releaser([&] {
    asked.wait(false);
    blocker.release();
  });
  asked = true;
  asked.notify_all();
  block = make(200 * kMiB);
  EXPECT_EQ(allocator_stats(0).num_ooms, 0);
  releaser.join();
}

TEST_F(CachingAllocator, EventThatCannotBeRecordedIsReplacedByWaiting) {
  Stream& side = stream_from_pool(0, 0);
  OwnedBlock block = make(30 * kMiB);
  record_stream(*block, side);
  FailingDriver driver;
  driver.fail_event_record();
  block.reset();
  EXPECT_EQ(allocator_stats(0).active_bytes.all.current, 0);
}

// --- looking up ------------------------------------------------------------------------------------------------------

TEST_P(Reuse, BlockIsFoundByItsAddressWhileItLives) {
  OwnedBlock block = make(GetParam());
  char* const data = static_cast<char*>(block->data);
  EXPECT_EQ(find_block(data), block.get());
  EXPECT_EQ(find_block(data + 1), nullptr);
  block.reset();
  EXPECT_EQ(find_block(data), nullptr);
}

TEST_P(Reuse, DeviceIsFoundForEveryAddressOfASegment) {
  const OwnedBlock block = make(GetParam(), default_stream(1));
  const char* data = static_cast<const char*>(block->data);
  EXPECT_EQ(device_of_pointer(data), 1);
  EXPECT_EQ(device_of_pointer(data + block->size - 1), 1);
}

TEST_F(CachingAllocator, ForeignAddressesBelongToNoBlockAndNoDevice) {
  alignas(64) char local[64] = {};
  EXPECT_EQ(find_block(local), nullptr);
  EXPECT_EQ(find_block(nullptr), nullptr);
  EXPECT_EQ(find_block(reinterpret_cast<void*>(~uintptr_t{63})), nullptr);
  EXPECT_EQ(device_of_pointer(local), -1);
  EXPECT_EQ(device_of_pointer(nullptr), -1);
}

}  // namespace
}  // namespace mydev
