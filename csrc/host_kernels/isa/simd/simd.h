// The thin SIMD layer: vectors of the instruction set's width over GCC's vector extensions.
//
// Vec<T> has the built-in operators, comparisons give masks (a signed integer per lane, 0 or -1), and `mask ? a : b`
// selects. Operations that the extensions lack are here. Loads and stores need no alignment.
#pragma once

#include <cmath>
#include <cstring>
#include <type_traits>

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
template <typename T>
using Half = typename detail::VectorType<T, kVectorBytes / 2>::type;
using HalfF32 = Half<float>;  // as many lanes as F64

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
// Past the caches where the instruction set can: p is aligned as a vector is, and others see it after drain_stores().
template <typename T>
inline void store_past_caches(T* p, Vec<T> v) {
#if defined(MYDEV_ISA_AVX512)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(p), reinterpret_cast<__m512i>(v));
#elif defined(MYDEV_ISA_AVX2)
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), reinterpret_cast<__m256i>(v));
#else
  store(p, v);
#endif
}
inline void drain_stores() {
#if defined(MYDEV_ISA_AVX512) || defined(MYDEV_ISA_AVX2)
  _mm_sfence();
#endif
}
#if defined(MYDEV_ISA_AVX512)
// The first n lanes, n < 16 (4-byte lanes) or 8.
inline __mmask16 first_lanes(int64_t n) {
  return static_cast<__mmask16>((1u << n) - 1);
}
#elif defined(MYDEV_ISA_AVX2)
inline __m256i first_lanes_32(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline __m256i first_lanes_64(int64_t n) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}
#endif

// The first n lanes, fewer than all, are read; the others are those of `otherwise`.
template <typename T>
inline Vec<T> load_partial(const T* p, int64_t n, Vec<T> otherwise) {
#if defined(MYDEV_ISA_AVX512)
  if constexpr (sizeof(T) == 4) {
    return reinterpret_cast<Vec<T>>(_mm512_mask_loadu_epi32(reinterpret_cast<__m512i>(otherwise), first_lanes(n), p));
  } else if constexpr (sizeof(T) == 8) {
    return reinterpret_cast<Vec<T>>(
        _mm512_mask_loadu_epi64(reinterpret_cast<__m512i>(otherwise), static_cast<__mmask8>(first_lanes(n)), p));
  }
#elif defined(MYDEV_ISA_AVX2)
  if constexpr (sizeof(T) == 4) {
    const __m256i lanes = first_lanes_32(n);
    const __m256i read = _mm256_maskload_epi32(reinterpret_cast<const int*>(p), lanes);
    return reinterpret_cast<Vec<T>>(_mm256_blendv_epi8(reinterpret_cast<__m256i>(otherwise), read, lanes));
  } else if constexpr (sizeof(T) == 8) {
    const __m256i lanes = first_lanes_64(n);
    const __m256i read = _mm256_maskload_epi64(reinterpret_cast<const long long*>(p), lanes);
    return reinterpret_cast<Vec<T>>(_mm256_blendv_epi8(reinterpret_cast<__m256i>(otherwise), read, lanes));
  }
#endif
  std::memcpy(&otherwise, p, static_cast<size_t>(n) * sizeof(T));
  return otherwise;
}
template <typename T>
inline Vec<T> load_partial(const T* p, int64_t n) {
  return load_partial(p, n, Vec<T>{});
}
// Stores the first n lanes, fewer than all.
template <typename T>
inline void store_partial(T* p, Vec<T> v, int64_t n) {
#if defined(MYDEV_ISA_AVX512)
  if constexpr (sizeof(T) == 4) {
    _mm512_mask_storeu_epi32(p, first_lanes(n), reinterpret_cast<__m512i>(v));
    return;
  } else if constexpr (sizeof(T) == 8) {
    _mm512_mask_storeu_epi64(p, static_cast<__mmask8>(first_lanes(n)), reinterpret_cast<__m512i>(v));
    return;
  }
#elif defined(MYDEV_ISA_AVX2)
  if constexpr (sizeof(T) == 4) {
    _mm256_maskstore_epi32(reinterpret_cast<int*>(p), first_lanes_32(n), reinterpret_cast<__m256i>(v));
    return;
  } else if constexpr (sizeof(T) == 8) {
    _mm256_maskstore_epi64(reinterpret_cast<long long*>(p), first_lanes_64(n), reinterpret_cast<__m256i>(v));
    return;
  }
#endif
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

inline F32 floor(F32 v) {
#if defined(MYDEV_ISA_AVX512)
  return _mm512_maskz_roundscale_ps(__mmask16(-1), v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#elif defined(MYDEV_ISA_AVX2)
  return _mm256_floor_ps(v);
#else
  for (int i = 0; i < kLanes<float>; ++i) v[i] = std::floor(v[i]);
  return v;
#endif
}
inline F64 floor(F64 v) {
#if defined(MYDEV_ISA_AVX512)
  return _mm512_maskz_roundscale_pd(__mmask8(-1), v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#elif defined(MYDEV_ISA_AVX2)
  return _mm256_floor_pd(v);
#else
  for (int i = 0; i < kLanes<double>; ++i) v[i] = std::floor(v[i]);
  return v;
#endif
}
inline F64 trunc(F64 v) {
#if defined(MYDEV_ISA_AVX512)
  return _mm512_maskz_roundscale_pd(__mmask8(-1), v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
#elif defined(MYDEV_ISA_AVX2)
  return _mm256_round_pd(v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
#else
  for (int i = 0; i < kLanes<double>; ++i) v[i] = std::trunc(v[i]);
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

#if defined(MYDEV_ISA_AVX512)
// Whether each lane has the bit, which is one.
inline bool in_all_lanes(I32 v, int32_t bit) {
  return _mm512_test_epi32_mask(reinterpret_cast<__m512i>(v), _mm512_set1_epi32(bit)) == 0xffff;
}
#elif defined(MYDEV_ISA_AVX2)
inline bool in_all_lanes(I32 v, int32_t bit) {
  return _mm256_testc_si256(reinterpret_cast<__m256i>(v), _mm256_set1_epi32(bit)) != 0;
}
#endif

// a > b ? a : b (a < b ? a : b): b if one of them is NaN.
template <typename T>
inline Vec<T> greater_of(Vec<T> a, Vec<T> b) {
#if defined(MYDEV_ISA_AVX512)
  if constexpr (std::is_same_v<T, float>) return _mm512_maskz_max_ps(__mmask16(-1), a, b);
  if constexpr (std::is_same_v<T, double>) return _mm512_maskz_max_pd(__mmask8(-1), a, b);
#elif defined(MYDEV_ISA_AVX2)
  if constexpr (std::is_same_v<T, float>) return _mm256_max_ps(a, b);
  if constexpr (std::is_same_v<T, double>) return _mm256_max_pd(a, b);
#endif
  return a > b ? a : b;
}
template <typename T>
inline Vec<T> lesser_of(Vec<T> a, Vec<T> b) {
#if defined(MYDEV_ISA_AVX512)
  if constexpr (std::is_same_v<T, float>) return _mm512_maskz_min_ps(__mmask16(-1), a, b);
  if constexpr (std::is_same_v<T, double>) return _mm512_maskz_min_pd(__mmask8(-1), a, b);
#elif defined(MYDEV_ISA_AVX2)
  if constexpr (std::is_same_v<T, float>) return _mm256_min_ps(a, b);
  if constexpr (std::is_same_v<T, double>) return _mm256_min_pd(a, b);
#endif
  return a < b ? a : b;
}

// Bounds that let NaN through.
template <typename V>
inline V at_least(V v, V low) {
  if constexpr (std::is_same_v<V, F32>) return greater_of<float>(low, v);
  if constexpr (std::is_same_v<V, F64>) return greater_of<double>(low, v);
  return low > v ? low : v;
}
template <typename V>
inline V at_most(V v, V high) {
  if constexpr (std::is_same_v<V, F32>) return lesser_of<float>(high, v);
  if constexpr (std::is_same_v<V, F64>) return lesser_of<double>(high, v);
  return high < v ? high : v;
}

// Whether a lane of the floating values added was NaN.
template <typename T>
class NanSeen {
 public:
  void add(Vec<T> a, Vec<T> b) {
#if defined(MYDEV_ISA_AVX512)
    if constexpr (std::is_same_v<T, float>) {
      seen_ |= _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q);
    } else {
      seen_ |= _mm512_cmp_pd_mask(a, b, _CMP_UNORD_Q);
    }
#elif defined(MYDEV_ISA_AVX2)
    if constexpr (std::is_same_v<T, float>) {
      seen_ |= reinterpret_cast<I64>(_mm256_cmp_ps(a, b, _CMP_UNORD_Q));
    } else {
      seen_ |= reinterpret_cast<I64>(_mm256_cmp_pd(a, b, _CMP_UNORD_Q));
    }
#else
    seen_ |= reinterpret_cast<I64>((a != a) | (b != b));
#endif
  }
  bool any() const {
#if defined(MYDEV_ISA_AVX512)
    return seen_ != 0;
#elif defined(MYDEV_ISA_AVX2)
    return _mm256_movemask_epi8(reinterpret_cast<__m256i>(seen_)) != 0;
#else
    int64_t lanes = 0;
    for (int64_t i = 0; i < kLanes<int64_t>; ++i) lanes |= seen_[i];
    return lanes != 0;
#endif
  }

 private:
#if defined(MYDEV_ISA_AVX512)
  uint32_t seen_ = 0;
#else
  I64 seen_ = {};
#endif
};

// Nearest integer, ties to even, for |v| < 2^22 (F32) or 2^51 (F64); its bits hold the integer in the low end.
inline F32 round_shifted(F32 v) {
  return v + 12582912.0f;
}  // 1.5 * 2^23
inline F64 round_shifted(F64 v) {
  return v + 6755399441055744.0;
}  // 1.5 * 2^52

// Two halves, in double precision, and back.
#if defined(MYDEV_ISA_AVX512)
inline F64 widen_low(F32 v) {
  return _mm512_maskz_cvtps_pd(__mmask8(-1), _mm512_maskz_extractf32x8_ps(__mmask8(-1), v, 0));
}
inline F64 widen_high(F32 v) {
  return _mm512_maskz_cvtps_pd(__mmask8(-1), _mm512_maskz_extractf32x8_ps(__mmask8(-1), v, 1));
}
#elif defined(MYDEV_ISA_AVX2)
inline F64 widen_low(F32 v) {
  return _mm256_cvtps_pd(_mm256_castps256_ps128(v));
}
inline F64 widen_high(F32 v) {
  return _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
}
#else
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
#endif
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
