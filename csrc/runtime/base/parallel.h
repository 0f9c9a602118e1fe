// parallel_for over the process's one thread pool: the OpenMP runtime's, which is also torch's (one team, one
// set_num_threads).
//
// Policy. The range is split evenly, over no more threads than pieces of at least `grain` elements. Inside a parallel
// region, or in a build without OpenMP, the body runs on the caller's thread. The body must not throw.
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/base/api.h"

namespace mydev {

// Elements per piece from which a fork pays (1.2 to 1.6 us), by cost per element.
inline constexpr int64_t kGrainCheap = 32768;  // bound by memory: add, copy, compare
inline constexpr int64_t kGrainHeavy = 8192;   // tens of instructions: exp, tanh, division chains

MYDEV_API int parallel_threads() noexcept;  // that a parallel_for here would use at most

MYDEV_API void parallel_for(int64_t count, int64_t grain, void (*body)(void* context, int64_t begin, int64_t end),
                            void* context) noexcept;

// body(begin, end)
template <typename Body>
void parallel_for(int64_t count, int64_t grain, const Body& body) {
  if (count <= grain) {  // no call, no context: the common small case
    if (count > 0) body(int64_t{0}, count);
    return;
  }
  parallel_for(
      count, grain, [](void* context, int64_t begin, int64_t end) { (*static_cast<const Body*>(context))(begin, end); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace mydev
