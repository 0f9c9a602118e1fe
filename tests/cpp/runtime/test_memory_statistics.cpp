// The allocator's statistics and snapshot, and both while threads are at work.
#include <algorithm>
#include <array>
#include <random>
#include <thread>
#include <vector>

#include "allocator_fixture.h"
#include "runtime/base/status.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

using Statistics = CachingAllocator;

// --- statistics ------------------------------------------------------------------------------------------------------

void expect_consistent(const Stat& stat) {
  EXPECT_EQ(stat.current, stat.allocated - stat.freed);
  EXPECT_GE(stat.peak, stat.current);
  EXPECT_GE(stat.current, 0);
}

void expect_consistent(const PoolStats& pools) {
  expect_consistent(pools.all);
  expect_consistent(pools.small_pool);
  expect_consistent(pools.large_pool);
  EXPECT_EQ(pools.all.current, pools.small_pool.current + pools.large_pool.current);
  EXPECT_EQ(pools.all.allocated, pools.small_pool.allocated + pools.large_pool.allocated);
}

void expect_consistent(const AllocatorStats& stats) {
  expect_consistent(stats.allocation);
  expect_consistent(stats.segment);
  expect_consistent(stats.active);
  expect_consistent(stats.allocated_bytes);
  expect_consistent(stats.reserved_bytes);
  expect_consistent(stats.active_bytes);
  expect_consistent(stats.requested_bytes);
  expect_consistent(stats.inactive_split.small_pool);
  expect_consistent(stats.inactive_split.large_pool);
  expect_consistent(stats.inactive_split_bytes.small_pool);
  expect_consistent(stats.inactive_split_bytes.large_pool);
  EXPECT_LE(stats.requested_bytes.all.current, stats.allocated_bytes.all.current);
  EXPECT_LE(stats.active_bytes.all.current + stats.inactive_split_bytes.all.current, stats.reserved_bytes.all.current);
}

TEST_F(Statistics, StatisticsCountEachPoolAndEachTotal) {
  OwnedBlock small = make(100);
  OwnedBlock large = make(3 * kMiB);
  OwnedBlock huge = make(30 * kMiB);
  large.reset();
  const AllocatorStats stats = allocator_stats(0);
  EXPECT_EQ(stats.allocation.small_pool.current, 1);
  EXPECT_EQ(stats.allocation.large_pool.current, 1);
  EXPECT_EQ(stats.allocation.large_pool.peak, 2);
  EXPECT_EQ(stats.allocation.all.allocated, 3);
  EXPECT_EQ(stats.allocation.all.freed, 1);
  EXPECT_EQ(stats.requested_bytes.all.current, int64_t{100 + 30 * kMiB});
  EXPECT_EQ(stats.allocated_bytes.small_pool.current, 128);
  EXPECT_EQ(stats.segment.all.current, 3);
  EXPECT_EQ(stats.reserved_bytes.large_pool.current, int64_t{50 * kMiB});
  EXPECT_EQ(stats.inactive_split_bytes.small_pool.current, int64_t{2 * kMiB - 128});
  EXPECT_EQ(stats.inactive_split_bytes.large_pool.current, 0);
  EXPECT_EQ(stats.num_device_alloc, 3);
  expect_consistent(stats);
}

TEST_F(Statistics, PeaksOfMixedSizesAreExactInOneThread) {
  const auto size_of = [](const OwnedBlock& block) { return static_cast<int64_t>(block->size); };
  int64_t live = 0;
  int64_t peak = 0;
  std::vector<OwnedBlock> blocks;
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    if (blocks.size() > 20 && random() % 2 == 0) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      live -= size_of(blocks.back());
      blocks.pop_back();
    } else {
      Stream& stream = default_stream(0);
      blocks.push_back(make(random() % 5 == 0 ? kMiB + random() % (4 * kMiB) : random() % (64 * kKiB) + 1, stream));
      live += size_of(blocks.back());
      peak = std::max(peak, live);
    }
    if (blocks.size() > 30) {
      for (const OwnedBlock& block : blocks) live -= size_of(block);
      blocks.clear();
    }
  }
  const AllocatorStats stats = allocator_stats(0);
  EXPECT_EQ(stats.allocated_bytes.all.current, live);
  EXPECT_EQ(stats.allocated_bytes.all.peak, peak);
  expect_consistent(stats);
}

TEST_F(Statistics, ResettingPeaksStartsFromTheCurrentValue) {
  OwnedBlock kept = make(1000);
  make(5000);
  reset_peak_stats(0);
  EXPECT_EQ(allocator_stats(0).allocated_bytes.all.peak, allocated_bytes());
  make(2000);
  EXPECT_EQ(allocator_stats(0).allocated_bytes.all.peak, allocated_bytes() + 2048);
}

TEST_F(Statistics, ResettingTotalsKeepsTheCurrentValue) {
  OwnedBlock kept = make(1000);
  reset_accumulated_stats(0);
  const AllocatorStats stats = allocator_stats(0);
  EXPECT_EQ(stats.allocated_bytes.all.allocated, 0);
  EXPECT_EQ(stats.allocated_bytes.all.current, 1024);
  EXPECT_EQ(stats.num_device_alloc, 0);
}

TEST_F(Statistics, DevicesAreCountedApart) {
  const OwnedBlock block = make(3 * kMiB, default_stream(1));
  EXPECT_EQ(allocated_bytes(0), 0);
  EXPECT_EQ(allocated_bytes(1), int64_t{3 * kMiB});
}

// --- snapshot --------------------------------------------------------------------------------------------------------

TEST_F(Statistics, SnapshotCoversEveryByteOfEachSegmentAndAgreesWithStatistics) {
  std::vector<OwnedBlock> blocks;
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    blocks.push_back(make(i % 10 == 0 ? random() % (5 * kMiB) + 1 : random() % 4096 + 1));
    if (i % 3 == 0) blocks[random() % blocks.size()].reset();
  }
  Stream& side = stream_from_pool(0, 0);
  Blocker blocker(side);
  OwnedBlock deferred = make(3000);
  record_stream(*deferred, side);
  deferred.reset();

  int64_t reserved = 0;
  int64_t allocated = 0;
  int64_t active = 0;
  int64_t requested = 0;
  for (const SegmentSnapshot& segment : memory_snapshot()) {
    uintptr_t next = segment.address;
    for (const BlockSnapshot& block : segment.blocks) {
      EXPECT_EQ(block.address, next);
      next += block.size;
    }
    EXPECT_EQ(next, segment.address + segment.total_size);
    EXPECT_EQ(segment.device, 0);
    EXPECT_EQ(segment.stream_id, default_stream(0).id());
    reserved += static_cast<int64_t>(segment.total_size);
    allocated += static_cast<int64_t>(segment.allocated_size);
    active += static_cast<int64_t>(segment.active_size);
    requested += static_cast<int64_t>(segment.requested_size);
  }
  const AllocatorStats stats = allocator_stats(0);
  EXPECT_EQ(reserved, stats.reserved_bytes.all.current);
  EXPECT_EQ(allocated, stats.allocated_bytes.all.current);
  EXPECT_EQ(active, stats.active_bytes.all.current);
  EXPECT_EQ(active - allocated, 3072);
  EXPECT_GE(requested, stats.requested_bytes.all.current);
}

// --- threads ---------------------------------------------------------------------------------------------------------

TEST_F(Statistics, ThreadsAllocateAndFreeEachOthersBlocksWhileOthersLookOn) {
  constexpr int kThreads = 4;
  constexpr int kSteps = 20000;
  std::array<std::atomic<Block*>, 64> exchange{};
  std::atomic<bool> done{false};
  std::thread observer([&] {
    while (!done) {
      expect_consistent(allocator_stats(0));
      memory_snapshot();
      empty_cache(0);
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      Stream& side = stream_by_id(0, 1 + t % 2);
      for (int i = 0; i < kSteps; ++i) {
        const size_t bytes = random() % 16 == 0 ? kMiB + random() % kMiB : random() % 20000;
        Block* block = allocate(random() % 2 == 0 ? default_stream(0) : side, bytes);
        if (random() % 32 == 0) record_stream(*block, side);
        EXPECT_EQ(find_block(block->data), bytes > 0 ? block : nullptr);
        if (Block* other = exchange[random() % exchange.size()].exchange(block)) release(*other);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  observer.join();
  for (auto& slot : exchange) {
    if (Block* block = slot.load()) release(*block);
  }
  EXPECT_EQ(allocator_stats(0).allocation.all.current, 0);
  EXPECT_EQ(allocator_stats(0).allocation.all.allocated, allocator_stats(0).allocation.all.freed);
}

TEST_F(Statistics, NoTwoLiveBlocksOverlap) {
  std::vector<OwnedBlock> blocks;
  std::mt19937 random(11);
  for (int i = 0; i < 2000; ++i) {
    if (blocks.size() > 100) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      blocks.pop_back();
    }
    blocks.push_back(make(random() % 20 == 0 ? random() % (3 * kMiB) + 1 : random() % 10000 + 1));
  }
  std::sort(blocks.begin(), blocks.end(), [](const auto& a, const auto& b) { return a->data < b->data; });
  for (size_t i = 1; i < blocks.size(); ++i) {
    EXPECT_LE(static_cast<char*>(blocks[i - 1]->data) + blocks[i - 1]->size, static_cast<char*>(blocks[i]->data));
  }
}

}  // namespace
}  // namespace mydev
