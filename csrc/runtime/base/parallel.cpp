#include "runtime/base/parallel.h"

#include <algorithm>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace mydev {

int parallel_threads() noexcept {
#ifdef _OPENMP
  return omp_in_parallel() ? 1 : omp_get_max_threads();
#else
  return 1;
#endif
}

void parallel_for(int64_t count, int64_t grain, void (*body)(void* context, int64_t begin, int64_t end),
                  void* context) noexcept {
  if (count <= 0) return;
  const int64_t pieces = std::min<int64_t>(parallel_threads(), count / std::max<int64_t>(grain, 1));
  if (pieces <= 1) {
    body(context, 0, count);
    return;
  }
#ifdef _OPENMP
#pragma omp parallel num_threads(static_cast<int>(pieces))
  {
    // The team may be smaller than asked for.
    const int64_t threads = omp_get_num_threads();
    const int64_t piece = (count + threads - 1) / threads;
    const int64_t begin = omp_get_thread_num() * piece;
    if (begin < count) body(context, begin, std::min(count, begin + piece));
  }
#endif
}

}  // namespace mydev
