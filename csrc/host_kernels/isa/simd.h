// The thin SIMD layer: vectors of the instruction set's width over GCC's vector extensions.
//
// Vec<T> has the built-in operators, comparisons give masks (a signed integer per lane, 0 or -1), and `mask ? a : b`
// selects. What the extensions lack is here. Loads and stores need no alignment.
#pragma once

#include <cmath>
#include <cstring>

#include "host_kernels/isa/isa.h"

#if defined(MYDEV_ISA_AVX2) || defined(MYDEV_ISA_AVX512)
#include <immintrin.h>
#endif

namespace mydev::kernels::MYDEV_ISA {

#if defined(MYDEV_ISA_AVX512)
inline constexpr size_t kVectorBytes = 64;
#elif defined(MYDEV_ISA_AVX2)
inline constexpr size_t kVectorBytes = 32;
#else
inline constexpr size_t kVectorBytes = 16;
#endif

namespace detail {
template <typename T, size_t bytes>
struct VectorType {
  typedef T type [[gnu::vector_size(bytes)]];
};
}  // namespace detail

template <typename T>
using Vec = typename detail::VectorType<T, kVectorBytes>::type;
template <typename T>
inline constexpr int64_t kLanes = kVectorBytes / sizeof(T);

using F32 = Vec<float>;
using I32 = Vec<int32_t>;
using F64 = Vec<double>;
using I64 = Vec<int64_t>;
using HalfF32 = detail::VectorType<float, kVectorBytes / 2>::type;  // as many lanes as F64

template <typename T>
inline Vec<T> load(const T* p) {
  Vec<T> v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
template <typename T>
inline void store(T* p, Vec<T> v) {
  std::memcpy(p, &v, sizeof(v));
}
// The first n lanes; the others are 0.
template <typename T>
inline Vec<T> load_partial(const T* p, int64_t n) {
  Vec<T> v = {};
  std::memcpy(&v, p, static_cast<size_t>(n) * sizeof(T));
  return v;
}
template <typename T>
inline void store_partial(T* p, Vec<T> v, int64_t n) {
  std::memcpy(p, &v, static_cast<size_t>(n) * sizeof(T));
}
template <typename T>
inline Vec<T> splat(T value) {
  return value - Vec<T>{};  // keeps NaN and -0
}

inline I32 bits(F32 v) {
  return reinterpret_cast<I32>(v);
}
inline I64 bits(F64 v) {
  return reinterpret_cast<I64>(v);
}
inline F32 from_bits(I32 v) {
  return reinterpret_cast<F32>(v);
}
inline F64 from_bits(I64 v) {
  return reinterpret_cast<F64>(v);
}

inline F32 fma(F32 a, F32 b, F32 c) {
#if defined(MYDEV_ISA_AVX512)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(MYDEV_ISA_AVX2)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}
inline F64 fma(F64 a, F64 b, F64 c) {
#if defined(MYDEV_ISA_AVX512)
  return _mm512_fmadd_pd(a, b, c);
#elif defined(MYDEV_ISA_AVX2)
  return _mm256_fmadd_pd(a, b, c);
#else
  return a * b + c;
#endif
}

inline F32 sqrt(F32 v) {
#if defined(MYDEV_ISA_AVX512)
  return _mm512_maskz_sqrt_ps(__mmask16(-1), v);
#elif defined(MYDEV_ISA_AVX2)
  return _mm256_sqrt_ps(v);
#else
  for (int i = 0; i < kLanes<float>; ++i) v[i] = std::sqrt(v[i]);
  return v;
#endif
}
inline F64 sqrt(F64 v) {
#if defined(MYDEV_ISA_AVX512)
  return _mm512_maskz_sqrt_pd(__mmask8(-1), v);
#elif defined(MYDEV_ISA_AVX2)
  return _mm256_sqrt_pd(v);
#else
  for (int i = 0; i < kLanes<double>; ++i) v[i] = std::sqrt(v[i]);
  return v;
#endif
}

inline F32 abs(F32 v) {
  return from_bits(bits(v) & 0x7fffffff);
}
inline F64 abs(F64 v) {
  return from_bits(bits(v) & 0x7fffffffffffffff);
}
inline F32 copysign(F32 magnitude, F32 sign) {
  return from_bits((bits(magnitude) & 0x7fffffff) | (bits(sign) & INT32_MIN));
}
inline F64 copysign(F64 magnitude, F64 sign) {
  return from_bits((bits(magnitude) & INT64_MAX) | (bits(sign) & INT64_MIN));
}

// Bounds that let NaN through.
template <typename V>
inline V at_least(V v, V low) {
  return v < low ? low : v;
}
template <typename V>
inline V at_most(V v, V high) {
  return v > high ? high : v;
}

// Nearest integer, ties to even, for |v| < 2^22 (F32) or 2^51 (F64); its bits hold the integer in the low end.
inline F32 round_shifted(F32 v) {
  return v + 12582912.0f;
}  // 1.5 * 2^23
inline F64 round_shifted(F64 v) {
  return v + 6755399441055744.0;
}  // 1.5 * 2^52

// Two halves, in double precision, and back.
inline F64 widen_low(F32 v) {
  HalfF32 half;
  std::memcpy(&half, &v, sizeof(half));
  return __builtin_convertvector(half, F64);
}
inline F64 widen_high(F32 v) {
  HalfF32 half;
  std::memcpy(&half, reinterpret_cast<const char*>(&v) + sizeof(half), sizeof(half));
  return __builtin_convertvector(half, F64);
}
inline F32 narrow(F64 low, F64 high) {
  const HalfF32 halves[2] = {__builtin_convertvector(low, HalfF32), __builtin_convertvector(high, HalfF32)};
  F32 v;
  std::memcpy(&v, halves, sizeof(v));
  return v;
}
// f in double precision: for functions whose float result then is correctly rounded but for 1 case in millions.
template <typename Function>
inline F32 in_double(F32 v, Function f) {
  return narrow(f(widen_low(v)), f(widen_high(v)));
}
template <typename Function>
inline F32 in_double(F32 a, F32 b, Function f) {
  return narrow(f(widen_low(a), widen_low(b)), f(widen_high(a), widen_high(b)));
}

template <typename V, typename T>
inline V polynomial(V, T last) {
  return last - V{};
}
// c0 + c1 x + c2 x^2 + ...
template <typename V, typename T, typename... Rest>
inline V polynomial(V x, T first, Rest... rest) {
  return fma(polynomial(x, rest...), x, first - V{});
}

}  // namespace mydev::kernels::MYDEV_ISA
