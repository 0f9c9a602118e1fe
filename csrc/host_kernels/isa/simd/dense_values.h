// Folds, dot products and exponentials over dense values of one compute type (float, double, integers).
#pragma once

#include <algorithm>
#include <limits>

#include "host_kernels/isa/simd/simd.h"
#include "host_kernels/isa/simd/vector_math.h"

namespace mydev::kernels::MYDEV_ISA {
namespace {

// a or b, whichever is larger (smaller); a NaN wins. Scalars or vectors.
inline constexpr auto kLarger = [](auto a, auto b) { return ((a > b) | (a != a)) ? a : b; };
inline constexpr auto kSmaller = [](auto a, auto b) { return ((a < b) | (a != a)) ? a : b; };
inline constexpr auto kPlus = [](auto a, auto b) { return a + b; };

// All lanes of a vector, combined half by half: a chain would take a latency per lane.
template <typename T, size_t bytes, typename Combine>
T across_lanes(typename detail::VectorType<T, bytes>::type v, const Combine& combine) {
  if constexpr (bytes > 16) {
    using Half = typename detail::VectorType<T, bytes / 2>::type;
    Half halves[2];
    std::memcpy(halves, &v, bytes);
    return across_lanes<T, bytes / 2>(combine(halves[0], halves[1]), combine);
  } else {
    constexpr int64_t n = bytes / sizeof(T);
    T lanes[n];
    for (int64_t i = 0; i < n; ++i) lanes[i] = v[i];
    for (int64_t half = n / 2; half > 0; half /= 2) {
      for (int64_t i = 0; i < half; ++i) lanes[i] = static_cast<T>(combine(lanes[i], lanes[i + half]));
    }
    return lanes[0];
  }
}
template <typename T, typename Combine>
T across_lanes(Vec<T> v, const Combine& combine) {
  return across_lanes<T, kVectorBytes>(v, combine);
}

// combine(... combine(identity, x[0]) ..., x[count - 1]) in some order of a commutative, associative combine.
template <typename T, typename Combine>
T fold(const T* x, int64_t count, T identity, const Combine& combine) {
  constexpr int64_t n = kLanes<T>;
  T result = identity;
  int64_t i = 0;
  if (count >= n) {
    Vec<T> a = splat(identity), b = a, c = a, d = a;
    for (; i + 4 * n <= count; i += 4 * n) {
      a = combine(a, load(x + i));
      b = combine(b, load(x + i + n));
      c = combine(c, load(x + i + 2 * n));
      d = combine(d, load(x + i + 3 * n));
    }
    for (; i + n <= count; i += n) a = combine(a, load(x + i));
    result = across_lanes<T>(combine(combine(a, b), combine(c, d)), combine);
  }
  for (; i < count; ++i) result = static_cast<T>(combine(result, x[i]));
  return result;
}

// The largest, or smallest, of map(x[i]) and `start`; NaN if one is NaN. map leaves `start` as it is.
template <bool kLargest, typename T, typename Map>
T extremum_of(const T* x, int64_t count, T start, const Map& map) {
  constexpr int64_t n = kLanes<T>;
  const auto better = [](Vec<T> a, Vec<T> b) { return kLargest ? greater_of<T>(a, b) : lesser_of<T>(a, b); };
  Vec<T> a = splat(start), b = a, c = a, d = a;
  NanSeen<T> nan;
  int64_t i = 0;
  for (; i + 4 * n <= count; i += 4 * n) {
    const Vec<T> first = map(load(x + i)), second = map(load(x + i + n));
    const Vec<T> third = map(load(x + i + 2 * n)), fourth = map(load(x + i + 3 * n));
    a = better(first, a);
    b = better(second, b);
    c = better(third, c);
    d = better(fourth, d);
    nan.add(first, second);
    nan.add(third, fourth);
  }
  for (; i < count; i += n) {
    const Vec<T> values = map(i + n <= count ? load(x + i) : load_partial(x + i, count - i, splat(start)));
    a = better(values, a);
    nan.add(values, values);
  }
  if (nan.any()) return std::numeric_limits<T>::quiet_NaN();
  return across_lanes<T>(better(better(a, b), better(c, d)),
                         [](auto p, auto q) { return (kLargest ? p > q : p < q) ? p : q; });
}

template <typename T>
T sum_of(const T* x, int64_t count) {
  return fold(x, count, T{0}, kPlus);
}

// Sum of x[i] * y[i].
template <typename T>
T dot_of(const T* x, const T* y, int64_t count) {
  constexpr int64_t n = kLanes<T>;
  T result = 0;
  int64_t i = 0;
  if (count >= n) {
    Vec<T> a = {}, b = {};
    for (; i + 2 * n <= count; i += 2 * n) {
      a += load(x + i) * load(y + i);
      b += load(x + i + n) * load(y + i + n);
    }
    result = across_lanes<T>(a + b, kPlus);
  }
  for (; i < count; ++i) result += x[i] * y[i];
  return result;
}

// Loads as many values as F64 has lanes, as doubles.
inline F64 load_wide(const float* x) {
  HalfF32 half;
  std::memcpy(&half, x, sizeof(half));
  return __builtin_convertvector(half, F64);
}
inline F64 load_wide(const double* x) {
  return load(x);
}

// Sum of map(x[i]) with map, a function of F64 and of double, and the additions in double.
template <typename T, typename Map>
double wide_sum(const T* x, int64_t count, const Map& map) {
  constexpr int64_t n = kLanes<double>;
  F64 a = {}, b = {}, c = {}, d = {};
  int64_t i = 0;
  for (; i + 4 * n <= count; i += 4 * n) {
    a += map(load_wide(x + i));
    b += map(load_wide(x + i + n));
    c += map(load_wide(x + i + 2 * n));
    d += map(load_wide(x + i + 3 * n));
  }
  for (; i + n <= count; i += n) a += map(load_wide(x + i));
  double sum = across_lanes<double>((a + b) + (c + d), kPlus);
  for (; i < count; ++i) sum += map(static_cast<double>(x[i]));
  return sum;
}

template <typename T>
double wide_sum_of(const T* x, int64_t count) {
  return wide_sum(x, count, [](auto v) { return v; });
}

// Sum of (x[i] - center)^2, in T and in double.
template <typename T>
T squares_about(const T* x, T center, int64_t count) {
  constexpr int64_t n = kLanes<T>;
  Vec<T> a = {}, b = {}, c = {}, d = {};
  const auto add = [&](Vec<T>& sum, int64_t at) {
    const Vec<T> deviation = load(x + at) - center;
    sum += deviation * deviation;
  };
  int64_t i = 0;
  for (; i + 4 * n <= count; i += 4 * n) {
    add(a, i);
    add(b, i + n);
    add(c, i + 2 * n);
    add(d, i + 3 * n);
  }
  for (; i + n <= count; i += n) add(a, i);
  T sum = across_lanes<T>((a + b) + (c + d), kPlus);
  for (; i < count; ++i) sum += (x[i] - center) * (x[i] - center);
  return sum;
}
template <typename T>
double wide_squares_about(const T* x, double center, int64_t count) {
  return wide_sum(x, count, [center](auto v) { return (v - center) * (v - center); });
}

// y[i] = exp(x[i] - shift); returns their sum. y may be x.
template <typename T>
T exp_shifted(const T* x, T shift, T* y, int64_t count) {
  constexpr int64_t n = kLanes<T>;
  Vec<T> a = {}, b = {};
  int64_t i = 0;
  for (; i + 2 * n <= count; i += 2 * n) {
    const Vec<T> first = exp(load(x + i) - shift), second = exp(load(x + i + n) - shift);
    store(y + i, first);
    store(y + i + n, second);
    a += first;
    b += second;
  }
  for (; i + n <= count; i += n) {
    const Vec<T> value = exp(load(x + i) - shift);
    store(y + i, value);
    a += value;
  }
  T sum = across_lanes<T>(a + b, kPlus);
  if (i < count) {
    const int64_t length = count - i;
    const Vec<T> value = exp(load_partial(x + i, length) - shift);
    store_partial(y + i, value, length);
    for (int64_t lane = 0; lane < length; ++lane) sum += value[lane];
  }
  return sum;
}

template <typename T>
void exp_values(T* x, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) store(x + i, exp(load(x + i)));
  if (i < count) store_partial(x + i, exp(load_partial(x + i, count - i)), count - i);
}

}  // namespace
}  // namespace mydev::kernels::MYDEV_ISA
