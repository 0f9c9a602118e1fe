// Kernel group cumulative: of the elements up to each, along one dimension, the sum, the product, the largest, the
// smallest, and the logarithm of the sum of exponentials.
//
// Half precision computes in float, f32 and f64 in double, integers in 64 bits, which wrap round; what is largest or
// smallest is not converted but from half precision.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "host_kernels/isa/simd/element_chunk.h"
#include "host_kernels/isa/simd/tensor_list.h"
#include "runtime/base/parallel.h"
#include "runtime/frame/dtype.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

// The type that T is computed in. Integers are unsigned, so that wrapping round is defined.
template <typename T>
struct Wide {
  using Type = std::conditional_t<std::is_integral_v<T>, uint64_t, float>;
};
template <>
struct Wide<float> {
  using Type = double;
};
template <>
struct Wide<double> {
  using Type = double;
};
// A type that holds each T, in T's order.
template <typename T>
using Ordered = std::conditional_t<std::is_arithmetic_v<T>, T, float>;

struct Sum {
  template <typename T>
  using Compute = typename Wide<T>::Type;
  template <typename C>
  static constexpr C kStart = 0;
  template <typename C>
  static C combine(C sum, C x) {
    return sum + x;
  }
};
struct Product {
  template <typename T>
  using Compute = typename Wide<T>::Type;
  template <typename C>
  static constexpr C kStart = 1;
  template <typename C>
  static C combine(C product, C x) {
    return product * x;
  }
};

struct Largest {
  template <typename T>
  using Compute = Ordered<T>;
  template <typename C>
  static constexpr C kStart =
      std::is_floating_point_v<C> ? -std::numeric_limits<C>::infinity() : std::numeric_limits<C>::lowest();
  template <typename C>
  static C combine(C largest, C x) {
    return x > largest || x != x ? x : largest;
  }
};
struct Smallest {
  template <typename T>
  using Compute = Ordered<T>;
  template <typename C>
  static constexpr C kStart =
      std::is_floating_point_v<C> ? std::numeric_limits<C>::infinity() : std::numeric_limits<C>::max();
  template <typename C>
  static C combine(C smallest, C x) {
    return x < smallest || x != x ? x : smallest;
  }
};

struct LogSumExp {
  template <typename T>
  using Compute = typename Wide<T>::Type;
  template <typename C>
  static constexpr C kStart = -std::numeric_limits<C>::infinity();
  template <typename C>
  static C combine(C sum, C x) {
    const C apart = std::abs(sum - x);
    // Equal infinities or a NaN make `apart` a NaN: the result is the infinity or NaN itself.
    return apart == apart ? std::max(sum, x) + std::log1p(std::exp(-apart)) : sum + x;
  }
};

// The operands as lines: all dimensions but `dim` and the run, which is the last one unless that is `dim`.
template <typename Op, typename T>
struct Cumulative {
  using C = typename Op::template Compute<T>;
  static constexpr int64_t kWidth = 256;  // of a run that is taken at once

  struct Line {
    T* results;
    const T* elements;
  };

  const mydev_buffer &out, &in;
  int32_t dim, run;

  Line at(int64_t number) const {
    int64_t to = 0, from = 0;
    for (int32_t d = out.rank - 1; d >= 0; --d) {
      if (d == dim || d == run) continue;
      const int64_t position = number % out.sizes[d];
      number /= out.sizes[d];
      to += position * out.strides[d];
      from += position * in.strides[d];
    }
    return {static_cast<T*>(out.data) + to, static_cast<const T*>(in.data) + from};
  }

  // A line with a run, from `begin` to `end` of the run.
  void across(int64_t number, int64_t begin, int64_t end) const {
    const Line line = at(number);
    const bool is_dense = out.strides[run] == 1 && in.strides[run] == 1;
    for (int64_t at = begin; at < end; at += kWidth) {
      T* const results = line.results + at * out.strides[run];
      const T* const elements = line.elements + at * in.strides[run];
      const int64_t width = std::min(kWidth, end - at);
      is_dense ? across<true>(results, elements, width) : across<false>(results, elements, width);
    }
  }

  // Lines without a run. Several at once, since the next element of one waits for the last.
  void down(int64_t begin, int64_t end) const {
    constexpr int64_t kAtOnce = 4;  // whose lines fit a set of the first cache
    for (; begin + kAtOnce <= end; begin += kAtOnce) down<kAtOnce>(begin);
    for (; begin < end; ++begin) down<1>(begin);
  }

 private:
  template <int64_t kLines>
  void down(int64_t first) const {
    const int64_t size = out.sizes[dim], to = out.strides[dim], from = in.strides[dim];
    Line lines[kLines];
    C values[kLines];
    for (int64_t l = 0; l < kLines; ++l) {
      lines[l] = at(first + l);
      values[l] = Op::template kStart<C>;
    }
    for (int64_t i = 0; i < size; ++i) {
      for (int64_t l = 0; l < kLines; ++l) {
        values[l] = Op::combine(values[l], element_cast<C>(lines[l].elements[i * from]));
        lines[l].results[i * to] = element_cast<T>(values[l]);
      }
    }
  }

  template <bool kDense>
  void across(T* results, const T* elements, int64_t width) const {
    const int64_t size = out.sizes[dim], to = kDense ? 1 : out.strides[run], from = kDense ? 1 : in.strides[run];
    alignas(64) C values[kWidth];
    std::fill(values, values + width, Op::template kStart<C>);
    for (int64_t i = 0; i < size; ++i, results += out.strides[dim], elements += in.strides[dim]) {
#pragma GCC ivdep  // results may be the elements
      for (int64_t j = 0; j < width; ++j) {
        values[j] = Op::combine(values[j], element_cast<C>(elements[j * from]));
        results[j * to] = element_cast<T>(values[j]);
      }
    }
  }
};

template <typename Op, typename T>
void accumulate(const mydev_frame* frame, int32_t dim) {
  const mydev_buffer& out = frame->buffers[0];
  const int64_t count = element_count(out);
  if (count == 0) return;
  const int32_t last = out.rank - 1;
  const Cumulative<Op, T> cumulative{out, frame->buffers[1], dim, dim == last ? -1 : last};
  const int64_t depth = out.sizes[dim], width = dim == last ? 1 : out.sizes[last], lines = count / depth / width;
  if (dim == last) {
    parallel_for(lines, kGrainHeavy / depth + 1, [&](int64_t begin, int64_t end) { cumulative.down(begin, end); });
  } else if (lines >= parallel_threads() || width == 1) {
    parallel_for(lines, kGrainHeavy / (depth * width) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) cumulative.across(line, 0, width);
    });
  } else {
    parallel_for(width, kGrainHeavy / (depth * lines) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t line = 0; line < lines; ++line) cumulative.across(line, begin, end);
    });
  }
}

template <typename Op, typename T>
constexpr bool kTakes = !std::is_same_v<T, Truth> && !(std::is_same_v<Op, LogSumExp> && std::is_integral_v<T>);

template <typename Op>
mydev_code entry(const mydev_frame* frame) {
  const mydev_buffer &out = frame->buffers[0], &in = frame->buffers[1];
  if (out.dtype != in.dtype) return MYDEV_UNIMPLEMENTED;
  const int64_t dim = frame->attributes[0].value.i;
  if (dim < 0 || dim >= out.rank) {
    frame->host->set_error(frame, "dim must be a dimension of the operands, from 0 on");
    return MYDEV_INVALID_ARGUMENT;
  }
  mydev_code code = MYDEV_UNIMPLEMENTED;
  visit_element_type(out.dtype, [&]<typename T>() {
    if constexpr (kTakes<Op, T>) {
      accumulate<Op, T>(frame, static_cast<int32_t>(dim));
      code = MYDEV_OK;
    }
  });
  return code;
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.cumsum", entry<Sum>),
    kernel_record("mydev.cumprod", entry<Product>),
    kernel_record("mydev.cummax", entry<Largest>),
    kernel_record("mydev.cummin", entry<Smallest>),
    kernel_record("mydev.logcumsumexp", entry<LogSumExp>),
};

}  // namespace

std::span<const mydev_kernel> cumulative() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
