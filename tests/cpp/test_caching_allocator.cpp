// The caching allocator: sizes, reuse, streams, out of memory, settings, looking up.
#include <array>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "allocator_fixture.h"
#include "runtime/size_classes.h"
#include "runtime/status.h"

namespace mydev {
namespace {

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

template <typename F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was raised";
  return {MYDEV_OK, ""};
}

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
  EXPECT_EQ(block->framework_twin.load(), nullptr);
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

TEST_P(Reuse, TwinSlotIsEmptyAgain) {
  OwnedBlock block = make(GetParam());
  block->framework_twin.store(&block);
  block.reset();
  EXPECT_EQ(make(GetParam())->framework_twin.load(), nullptr);
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

TEST_F(CachingAllocator, LargeBlockIsSplitAndItsRestIsUsed) {
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
  // What the cache does not keep has merged in the pool, which another class of blocks may use.
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
  blocker.let_go();
  empty_cache(0);
  EXPECT_EQ(allocator_stats(0).active_bytes.all.current, 0);
  EXPECT_EQ(reserved_bytes(), 0);
}

TEST_F(CachingAllocator, RestingBlockIsReusedOnceItsStreamHasPassed) {
  Stream& side = stream_from_pool(0, 0);
  OwnedBlock block = make(30 * kMiB);
  void* const data = block->data;
  Blocker blocker(side);
  record_stream(*block, side);
  record_stream(*block, side);
  block.reset();
  blocker.let_go();
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
  blocker.let_go();
}

TEST_F(CachingAllocator, OutOfMemoryWaitsForRestsBeforeItGivesUp) {
  Stream& side = stream_from_pool(0, 0);
  OwnedBlock block = make(200 * kMiB);
  Blocker blocker(side);
  record_stream(*block, side);
  block.reset();
  std::atomic<bool> asked{false};
  std::thread releaser([&] {
    asked.wait(false);
    blocker.let_go();
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

// --- out of memory ---------------------------------------------------------------------------------------------------

TEST_F(CachingAllocator, OutOfMemoryNamesTheFiguresAndLeavesEverythingUsable) {
  const OwnedBlock held = make(100 * kMiB);
  const Error error = error_of([] { make(200 * kMiB); });
  EXPECT_EQ(error.code(), MYDEV_RESOURCE_EXHAUSTED);
  for (const char* part : {"mydev:0", "tried to allocate 200.00 MiB", "total of 256.00 MiB", "156.00 MiB is free",
                           "100.00 MiB allocated", "100.00 MiB reserved"}) {
    EXPECT_NE(std::strstr(error.what(), part), nullptr) << part << " is not in: " << error.what();
  }
  EXPECT_EQ(allocator_stats(0).num_ooms, 1);
  EXPECT_EQ(allocator_stats(0).num_alloc_retries, 1);
  EXPECT_NE(make(100 * kMiB)->data, nullptr);
}

TEST_F(CachingAllocator, CachedSegmentsAreReleasedBeforeOutOfMemory) {
  make(150 * kMiB);
  make(50 * kMiB, stream_from_pool(0, 0));
  std::thread([] { make(100); }).join();
  EXPECT_NE(make(250 * kMiB)->data, nullptr);
  const AllocatorStats stats = allocator_stats(0);
  EXPECT_EQ(stats.num_alloc_retries, 1);
  EXPECT_EQ(stats.num_ooms, 0);
  EXPECT_EQ(stats.num_device_free, 3);
}

TEST_F(CachingAllocator, SegmentOfTheBlocksOwnSizeIsTheLastResort) {
  const OwnedBlock held = make(252 * kMiB);
  const OwnedBlock block = make(3 * kMiB);
  EXPECT_EQ(reserved_bytes(), int64_t{255 * kMiB});
  const OwnedBlock small = make(kMiB);
  EXPECT_EQ(reserved_bytes(), int64_t{256 * kMiB});
}

TEST_F(CachingAllocator, MemoryFractionLimitsWhatIsReserved) {
  set_memory_fraction(0, 0.25);
  EXPECT_EQ(memory_fraction(0), 0.25);
  const OwnedBlock held = make(40 * kMiB);
  const Error error = error_of([] { make(30 * kMiB); });
  EXPECT_EQ(error.code(), MYDEV_RESOURCE_EXHAUSTED);
  EXPECT_NE(std::strstr(error.what(), "at most 64.00 MiB"), nullptr) << error.what();
  EXPECT_NE(make(20 * kMiB)->data, nullptr);
  EXPECT_NE(make(100 * kMiB, default_stream(1))->data, nullptr);
}

class BadFractions : public CachingAllocator, public testing::WithParamInterface<double> {};
INSTANTIATE_TEST_SUITE_P(, BadFractions, testing::Values(0.0, -0.5, 1.01, std::numeric_limits<double>::quiet_NaN()));

TEST_P(BadFractions, AreRefused) {
  EXPECT_EQ(error_of([] { set_memory_fraction(0, GetParam()); }).code(), MYDEV_INVALID_ARGUMENT);
  EXPECT_EQ(memory_fraction(0), 1.0);
}

TEST_F(CachingAllocator, OtherFailuresOfTheDriverAreRaisedAsTheyAre) {
  {
    FailingDriver driver;
    driver.fail_alloc(MYDEV_UNAVAILABLE);
    EXPECT_EQ(error_of([] { make(100); }).code(), MYDEV_UNAVAILABLE);
  }
  EXPECT_NE(make(100)->data, nullptr);
}

TEST_F(CachingAllocator, MemoryThatTheDriverWillNotTakeBackStaysUsable) {
  OwnedBlock block = make(30 * kMiB);
  void* const data = block->data;
  block.reset();
  {
    FailingDriver driver;
    driver.fail_free();
    EXPECT_EQ(error_of([] { empty_cache(0); }).code(), MYDEV_INTERNAL);
  }
  EXPECT_EQ(reserved_bytes(), int64_t{30 * kMiB});
  EXPECT_EQ(make(30 * kMiB)->data, data);
}

// --- forked processes ------------------------------------------------------------------------------------------------

using CachingAllocatorDeathTest = CachingAllocator;

TEST_F(CachingAllocatorDeathTest, ForkedChildIsRefusedMemoryButMayDropWhatItInherited) {
  GTEST_FLAG_SET(death_test_style, "fast");  // the child is a fork of this process, for the time of this test
  Stream& stream = default_stream(0);
  OwnedBlock inherited = make(100);
  make(100);  // leaves a cached block that would serve the next request
  const auto child = [&] {
    inherited.reset();
    try {
      allocate(stream, 100);
    } catch (const Error& error) {
      const bool advises = std::strstr(error.what(), "spawn") != nullptr;
      std::_Exit(error.code() == MYDEV_FAILED_PRECONDITION && advises ? 7 : 8);
    }
    std::_Exit(9);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(7), "");
}

// --- settings --------------------------------------------------------------------------------------------------------

TEST_F(CachingAllocator, BlocksAboveMaxSplitSizeAreKeptWhole) {
  set_allocator_settings({.max_split_size = 24 * kMiB});
  OwnedBlock big = make(100 * kMiB);
  void* const data = big->data;
  EXPECT_EQ(allocator_stats(0).oversize_allocations.current, 1);
  EXPECT_EQ(allocator_stats(0).oversize_segments.current, 1);
  big.reset();
  EXPECT_NE(make(10 * kMiB)->data, data);
  EXPECT_NE(make(70 * kMiB)->data, data);
  const OwnedBlock similar = make(90 * kMiB);
  EXPECT_EQ(similar->data, data);
  EXPECT_EQ(similar->size, 100 * kMiB);
}

TEST_F(CachingAllocator, GarbageCollectionReleasesWhatIsUnusedLongestFirst) {
  set_allocator_settings({.garbage_collection_threshold = 0.5});
  void* const recent = [] {
    make(40 * kMiB);
    return make(50 * kMiB)->data;
  }();
  const OwnedBlock block = make(60 * kMiB);
  EXPECT_EQ(reserved_bytes(), int64_t{110 * kMiB});
  EXPECT_EQ(make(50 * kMiB)->data, recent);
}

TEST_F(CachingAllocator, LargeRequestsAreRoundedToPowerOfTwoDivisions) {
  AllocatorSettings settings;
  settings.roundup_power2_divisions.fill(4);
  set_allocator_settings(settings);
  EXPECT_EQ(make(33 * kMiB)->size, 40 * kMiB);
  EXPECT_EQ(make(100)->size, 128U);
}

TEST_F(CachingAllocator, RoundingMayDifferByInterval) {
  AllocatorSettings settings;
  settings.roundup_power2_divisions[5] = 2;  // 32 to 64 MiB
  set_allocator_settings(settings);
  EXPECT_EQ(make(33 * kMiB)->size, 48 * kMiB);
  EXPECT_EQ(make(17 * kMiB)->size, 17 * kMiB);
}

TEST_F(CachingAllocator, MediumSegmentsHaveTheSizeThatIsSet) {
  set_allocator_settings({.medium_segment_size = 32 * kMiB});
  const OwnedBlock block = make(2 * kMiB);
  EXPECT_EQ(reserved_bytes(), int64_t{32 * kMiB});
}

class BadSettings : public CachingAllocator, public testing::WithParamInterface<AllocatorSettings> {};
INSTANTIATE_TEST_SUITE_P(, BadSettings,
                         testing::Values(AllocatorSettings{.max_split_size = 10 * kMiB},
                                         AllocatorSettings{.medium_segment_size = 4 * kMiB},
                                         AllocatorSettings{.garbage_collection_threshold = 1.0},
                                         AllocatorSettings{.garbage_collection_threshold = -0.1}));

TEST_P(BadSettings, AreRefusedAndTheOldOnesStay) {
  EXPECT_EQ(error_of([] { set_allocator_settings(GetParam()); }).code(), MYDEV_INVALID_ARGUMENT);
  EXPECT_EQ(allocator_settings().max_split_size, SIZE_MAX);
}

TEST_F(CachingAllocator, BadDeviceIndexIsRefused) {
  EXPECT_EQ(error_of([] { allocator_stats(2); }).code(), MYDEV_INVALID_ARGUMENT);
  EXPECT_EQ(error_of([] { empty_cache(-1); }).code(), MYDEV_INVALID_ARGUMENT);
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
