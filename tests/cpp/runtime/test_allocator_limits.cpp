// The caching allocator at its limits: out of memory, failures of the driver, forked processes, settings.
#include <cstring>
#include <limits>
#include <thread>

#include "allocator_fixture.h"
#include "error_fixture.h"
#include "runtime/base/status.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

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

}  // namespace
}  // namespace mydev
