#include "host_kernels/onednn/primitive_cache.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <unordered_map>

#include "host_kernels/onednn/primitive_plan.h"
#ifdef _OPENMP
#include <omp.h>
#endif

namespace mydev::kernels {

namespace {

struct Entry {
  PlanKey key;
  std::shared_ptr<PrimitivePlan> plan;
};

struct KeyHash {
  size_t operator()(const PlanKey* key) const noexcept { return key->hash(); }
};
struct KeyEqual {
  bool operator()(const PlanKey* a, const PlanKey* b) const noexcept { return *a == *b; }
};

class Cache {
 public:
  std::shared_ptr<PrimitivePlan> find(const PlanKey& key) {
    const std::scoped_lock lock(mutex_);
    return find_locked(key, true);
  }

  std::shared_ptr<PrimitivePlan> insert(const PlanKey& key, std::shared_ptr<PrimitivePlan> plan) {
    std::shared_ptr<PrimitivePlan> evicted;  // destroyed after the lock
    const std::scoped_lock lock(mutex_);
    if (auto earlier = find_locked(key, false)) return earlier;
    if (entries_.size() == kPrimitiveCacheCapacity) {
      evicted = std::move(entries_.back().plan);
      index_.erase(&entries_.back().key);
      entries_.pop_back();
      ++statistics_.evictions;
    }
    entries_.push_front({key, plan});
    index_.emplace(&entries_.front().key, entries_.begin());
    return plan;
  }

  PrimitiveCacheStatistics statistics() {
    const std::scoped_lock lock(mutex_);
    PrimitiveCacheStatistics result = statistics_;
    result.size = entries_.size();
    return result;
  }

 private:
  std::shared_ptr<PrimitivePlan> find_locked(const PlanKey& key, bool count) {
    const auto found = index_.find(&key);
    if (found == index_.end()) {
      statistics_.misses += count ? 1 : 0;
      return nullptr;
    }
    statistics_.hits += count ? 1 : 0;
    if (found->second != entries_.begin()) entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->plan;
  }

  std::mutex mutex_;          // guards everything below
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<const PlanKey*, std::list<Entry>::iterator, KeyHash, KeyEqual> index_;
  PrimitiveCacheStatistics statistics_{};
};

Cache& cache() {
  // Never destroyed: a thread may still run a kernel when the process ends.
  static auto* instance = new Cache;
  return *instance;
}

}  // namespace

int onednn_threads() noexcept {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

bool PlanKey::operator==(const PlanKey& other) const noexcept {
  return count_ == other.count_ && std::equal(words_.begin(), words_.begin() + count_, other.words_.begin());
}

size_t PlanKey::hash() const noexcept {
  // Two independent multiply-and-fold chains: half the latency of one.
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;
  uint64_t even = count_, odd = ~count_;
  for (size_t i = 0; i + 1 < count_; i += 2) {
    even = (even ^ static_cast<uint64_t>(words_[i])) * kMultiplier;
    odd = (odd ^ static_cast<uint64_t>(words_[i + 1])) * kMultiplier;
    even ^= even >> 32;
    odd ^= odd >> 29;
  }
  if (count_ % 2 != 0) even = (even ^ static_cast<uint64_t>(words_[count_ - 1])) * kMultiplier;
  even ^= odd * kMultiplier;
  return even ^ even >> 32;
}

std::shared_ptr<PrimitivePlan> find_or_create_plan(const PlanKey& key,
                                                   const std::function<std::shared_ptr<PrimitivePlan>()>& create) {
  if (auto plan = cache().find(key)) return plan;
  return cache().insert(key, create());
}

PrimitiveCacheStatistics primitive_cache_statistics() noexcept {
  return cache().statistics();
}

}  // namespace mydev::kernels
