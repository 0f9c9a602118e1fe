// The settings of the caching allocator that users can change. Thread-safe; a change is for requests that begin later.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/base/api.h"

namespace mydev {

struct AllocatorSettings {
  size_t medium_segment_size = size_t{20} << 20;     // of a segment for requests above 1 MiB and below 10 MiB
  size_t max_split_size = SIZE_MAX;                  // blocks larger than this are neither split nor used for smaller
                                                     // requests
  size_t max_non_split_rounding = size_t{20} << 20;  // a block that is not split may exceed the request by less
  double garbage_collection_threshold = 0;  // fraction of the limit above which cached segments are released; 0: off
  // Large requests are rounded up to a power of two divided in this many steps (a power of two); 0, 1: off. Entry i is
  // for requests of at least 1 MiB << i, the last one for all that are larger.
  std::array<size_t, 16> roundup_power2_divisions{};
};

// Raises INVALID_ARGUMENT for a max_split_size below medium_segment_size, a medium_segment_size below 10 MiB, or a
// threshold outside [0, 1).
MYDEV_API void set_allocator_settings(const AllocatorSettings& settings);
MYDEV_API const AllocatorSettings& allocator_settings() noexcept;

}  // namespace mydev
