// Fourier transforms by ducc0, the library that JAX's CPU uses; its headers name the papers. Compiled once per
// instruction set into a library of its own, which exports one function (fourier_transform.h).
//
// Threads are those of parallel_for: the functions of ducc0's thread pool that its transforms call are defined here.
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <typeindex>
#include <utility>
#include <vector>
// Without this macro ducc0 takes its own vectors for those of <experimental/simd>, which take GCC half as long again.
#undef __GLIBCXX__
#include "ducc0/fft/fft.h"
#include "ducc0/fft/fftnd_impl.h"
#include "host_kernels/fft/fourier_transform.h"
#include "runtime/base/parallel.h"

namespace ducc0::detail_threading {

namespace {

// The share of one of several threads.
class Share : public Scheduler {
 public:
  Share(size_t work, size_t threads, size_t thread)
      : threads_(threads), thread_(thread), left_(work * thread / threads, work * (thread + 1) / threads) {}
  size_t num_threads() const override { return threads_; }
  size_t thread_num() const override { return thread_; }
  Range getNext() override { return std::exchange(left_, Range()); }

 private:
  size_t threads_, thread_;
  Range left_;
};

void run_shares(size_t work, size_t threads, const std::function<void(Scheduler&)>& body) {
  std::mutex mutex;
  std::exception_ptr raised;
  mydev::parallel_for(static_cast<int64_t>(threads), 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) {
      try {
        Share share(work, threads, static_cast<size_t>(thread));
        body(share);
      } catch (...) {
        const std::lock_guard lock(mutex);
        raised = std::current_exception();
      }
    }
  });
  if (raised) std::rethrow_exception(raised);
}

}  // namespace

size_t adjust_nthreads(size_t wanted) {
  const auto threads = static_cast<size_t>(mydev::parallel_threads());
  return wanted == 0 ? threads : std::min(wanted, threads);
}
// The types are ducc0's.
// NOLINTBEGIN(performance-unnecessary-value-param)
void execParallel(size_t threads, std::function<void(Scheduler&)> body) {
  run_shares(1, adjust_nthreads(threads), body);
}
void execStatic(size_t work, size_t threads, size_t /*chunk*/, std::function<void(Scheduler&)> body) {
  run_shares(work, std::clamp<size_t>(work, 1, adjust_nthreads(threads)), body);
}
void execParallel(size_t low, size_t high, size_t threads, std::function<void(size_t, size_t)> body) {
  execStatic(high - low, threads, 0, [&](Scheduler& share) {
    const Range range = share.getNext();
    body(low + range.lo, low + range.hi);
  });
}
// NOLINTEND(performance-unnecessary-value-param)

}  // namespace ducc0::detail_threading

namespace mydev::kernels {

namespace {

using ducc0::fmav_info;

fmav_info layout(const FourierTransform& t, uint32_t first, const int64_t* sizes, const int64_t* strides) {
  return {fmav_info::shape_t(sizes + first, sizes + t.rank), fmav_info::stride_t(strides + first, strides + t.rank)};
}

template <typename T>
void transform_as(const FourierTransform& t) {
  using Complex = std::complex<T>;
  // Without a batch ducc0 computes within one line in vectors and threads.
  const uint32_t first = t.in_sizes[0] == 1 ? 1 : 0;
  const fmav_info from = layout(t, first, t.in_sizes, t.in_strides), to = layout(t, first, t.out_sizes, t.out_strides);
  fmav_info::shape_t axes(t.rank - 1);
  std::iota(axes.begin(), axes.end(), 1 - first);
  const T scale = static_cast<T>(t.scale);
  constexpr size_t kOneThreadElements = 32768;
  const size_t threads = std::max(from.size(), to.size()) <= kOneThreadElements ? 1 : 0;  // 0: all
  const auto input = [&]<typename E>(const E* data) { return ducc0::cfmav<E>(data, from); };
  const auto output = [&]<typename E>(E* data) { return ducc0::vfmav<E>(data, to); };
  switch (t.kind) {
    case FourierTransform::kComplex:
      return ducc0::c2c(input(static_cast<const Complex*>(t.in)), output(static_cast<Complex*>(t.out)), axes, t.forward,
                        scale, threads);
    case FourierTransform::kFromReal:
      return ducc0::r2c(input(static_cast<const T*>(t.in)), output(static_cast<Complex*>(t.out)), axes, t.forward,
                        scale, threads);
    case FourierTransform::kToReal:
      return ducc0::c2r(input(static_cast<const Complex*>(t.in)), output(static_cast<T*>(t.out)), axes, t.forward,
                        scale, threads);
  }
}

// Makes the caches of plans when the library is loaded. Static objects that exist before the first work of a stream
// are destroyed after the last, as runtime/stream/stream_table.h says.
template <typename T>
bool make_caches() {
  using namespace ducc0::detail_fft;  // NOLINT(google-build-using-namespace)
  get_plan<pocketfft_c<T>>(1);
  get_plan<pocketfft_r<T>>(1);
  get_plan<Long1dPlan<T>>(1);
  return true;
}
[[maybe_unused]] const bool caches = make_caches<float>() && make_caches<double>();

}  // namespace

extern "C" __attribute__((visibility("default"))) void mydev_fourier_transform(const FourierTransform& transform) {
  return transform.is_double ? transform_as<double>(transform) : transform_as<float>(transform);
}

}  // namespace mydev::kernels
