// Private pools: keys, entering, giving back, last resort; on asynchronous devices.
#include <thread>
#include <utility>

#include "allocator_fixture.h"
#include "runtime/base/status.h"
#include "runtime/memory/entered_pools.h"
#include "runtime/memory/pool_figures.h"
#include "runtime/memory/private_pool.h"

namespace mydev {
namespace {

using MemoryPools = CachingAllocator;

// Enters a pool for a scope.
class Entered {
 public:
  explicit Entered(const std::shared_ptr<PrivatePool>& pool, int device = 0) : device_(device), id_(pool->id()) {
    enter_pool(device, pool);
  }
  ~Entered() { leave_pool(device_, id_); }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  int device_;
  PoolId id_;
};

std::shared_ptr<PrivatePool> users_pool() {
  return PrivatePool::make({.last_resort = false, .returns_memory = true});
}

PoolId pool_of(const OwnedBlock& block) {
  return pool_of_key(*block->stream);
}

TEST_F(MemoryPools, IdsNameOnePoolEach) {
  const auto pool = users_pool();
  EXPECT_EQ(PrivatePool::find(pool->id()), pool);
  EXPECT_EQ(PrivatePool::with_id(pool->id()), pool);
  EXPECT_NE(users_pool()->id(), pool->id());
  const PoolId other = PrivatePool::next_id();
  EXPECT_EQ(PrivatePool::find(other), nullptr);
  EXPECT_EQ(PrivatePool::with_id(other)->id(), other);
  EXPECT_EQ(PrivatePool::find(other), nullptr);  // nobody has it any more
}

TEST_F(MemoryPools, SmallAndLargeBlocksComeFromThePoolThatWasEnteredLast) {
  for (const size_t bytes : {size_t{1}, 100 * kKiB, 3 * kMiB, 40 * kMiB}) {
    const auto outer = users_pool(), inner = users_pool();
    OwnedBlock cached = make(bytes);
    const Entered in_outer(outer);
    const OwnedBlock first = make(bytes);
    cached.reset();  // must not be what the next one gets
    {
      const Entered in_inner(inner);
      EXPECT_EQ(pool_of(make(bytes)), inner->id());
    }
    const OwnedBlock second = make(bytes);
    EXPECT_EQ(pool_of(first), outer->id());
    EXPECT_EQ(pool_of(second), outer->id());
    EXPECT_EQ(pool_of(make(bytes, default_stream(1))), PoolId{});
    std::thread([&] { EXPECT_EQ(pool_of(make(bytes)), PoolId{}); }).join();
  }
}

TEST_F(MemoryPools, AFreedBlockReturnsToItsPoolFromOutside) {
  const auto pool = users_pool();
  OwnedBlock block;
  {
    const Entered entered(pool);
    block = make(1000);
  }
  const void* address = block->data;
  block.reset();
  const OwnedBlock outside = make(1000);
  EXPECT_NE(outside->data, address);
  const Entered entered(pool);
  EXPECT_EQ(make(1000)->data, address);
}

TEST_F(MemoryPools, LeavingWhatWasNotEnteredIsRefused) {
  const auto pool = users_pool();
  EXPECT_THROW(leave_pool(0, pool->id()), Error);
  const Entered entered(pool);
  EXPECT_THROW(leave_pool(1, pool->id()), Error);
}

TEST_F(MemoryPools, UnusedMemoryGoesBackWithAUsersPoolAndTheRestLater) {
  auto pool = users_pool();
  OwnedBlock kept;
  {
    const Entered entered(pool);
    kept = make(3 * kMiB);
    make(40 * kMiB);
  }
  const PoolId id = pool->id();
  const int64_t reserved = reserved_by_pool(0).at(id).all.current;
  EXPECT_EQ(reserved, reserved_bytes());
  empty_cache(0);
  EXPECT_EQ(reserved_bytes(), reserved);  // the pool keeps it
  pool.reset();
  EXPECT_EQ(reserved_bytes(), reserved - static_cast<int64_t>(40 * kMiB));
  kept.reset();
  empty_cache_of_pool(id);
  EXPECT_EQ(reserved_bytes(), 0);
  EXPECT_EQ(reserved_by_pool(0).at(id).all.peak, reserved);
  reset_peak_stats(0);
  EXPECT_EQ(reserved_by_pool(0).count(id), 0U);
}

TEST_F(MemoryPools, AKeyServesAnotherPoolOnlyWithoutMemory) {
  auto pool = users_pool();
  Stream& key = pool->key_of(default_stream(0));
  OwnedBlock kept = make(1000, key);
  pool.reset();
  const auto second = users_pool();
  EXPECT_NE(&second->key_of(default_stream(0)), &key);
  kept.reset();
  empty_cache(0);
  EXPECT_EQ(&users_pool()->key_of(default_stream(0)), &key);
}

TEST_F(MemoryPools, APoolThatLendsServesItsStreamAlone) {
  const auto lender = PrivatePool::make({.last_resort = true, .returns_memory = true});
  const auto keeper = users_pool();
  for (const auto& pool : {lender, keeper}) {
    const Entered entered(pool);
    make(100 * kMiB);
  }
  Stream& other = stream_from_pool(0, 0);
  EXPECT_THROW(make(100 * kMiB, other), Error);
  const OwnedBlock lent = make(100 * kMiB);
  EXPECT_EQ(pool_of(lent), lender->id());
  EXPECT_THROW(make(100 * kMiB), Error);
}

TEST_F(MemoryPools, TheStreamOfAKeyIsTheKeysOwn) {
  const auto pool = users_pool();
  Stream& stream = stream_from_pool(0, 0);
  OwnedBlock block = make(3 * kMiB, pool->key_of(stream));
  const void* address = block->data;
  Blocker blocker(stream);
  record_stream(*block, stream);
  block.reset();
  EXPECT_EQ(make(3 * kMiB, pool->key_of(stream))->data, address);  // although the stream is busy
}

}  // namespace
}  // namespace mydev
