// The one cache of oneDNN plans, keyed by a compact description of the operation.
//
// Bounded: kPrimitiveCacheCapacity plans, the least recently used goes first; a plan in use survives its eviction.
// Thread-safe: one mutex around look-up and LRU order; plans are created outside it, so that a slow creation (0.1-0.4
// ms) stops nobody. When two threads create the same plan, the first one stays.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/base/api.h"

namespace mydev::kernels {

class PrimitivePlan;  // primitive_plan.h

inline constexpr size_t kPrimitiveCacheCapacity = 1024;

enum class PlanKind : int64_t { kMatmul, kConvolution, kConvolutionBackwardData, kConvolutionBackwardWeights };

// oneDNN plans a primitive for a number of threads, so it is part of every key.
MYDEV_API int onednn_threads() noexcept;

// Distinguishes one plan from another by sizes, strides, dtypes and parameters, as a short list of numbers.
class PlanKey {
 public:
  explicit PlanKey(PlanKind kind) noexcept {
    add(static_cast<int64_t>(kind));
    add(onednn_threads());
  }
  void add(int64_t value) noexcept { words_[count_++] = value; }
  bool operator==(const PlanKey& other) const noexcept;
  size_t hash() const noexcept;

 private:
  static constexpr size_t kMaxWords = 40;  // a 3-D convolution takes 35
  std::array<int64_t, kMaxWords> words_;
  size_t count_ = 0;
};

// The plan for `key`; `create` makes it when there is none.
MYDEV_API std::shared_ptr<PrimitivePlan> find_or_create_plan(
    const PlanKey& key, const std::function<std::shared_ptr<PrimitivePlan>()>& create);

struct PrimitiveCacheStatistics {
  size_t size;
  uint64_t hits;
  uint64_t misses;
  uint64_t evictions;
};
MYDEV_API PrimitiveCacheStatistics primitive_cache_statistics() noexcept;

}  // namespace mydev::kernels
