#include "runtime/base/one_thread.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace mydev {

#ifdef _OPENMP
OneThread::OneThread(bool one) noexcept : before_(one ? omp_get_max_threads() : 0) {
  if (before_ > 1) omp_set_num_threads(1);  // this thread's; others keep theirs
}

OneThread::~OneThread() {
  if (before_ > 1) omp_set_num_threads(before_);
}
#else
OneThread::OneThread(bool) noexcept : before_(0) {}

OneThread::~OneThread() = default;
#endif

}  // namespace mydev
