// Dense f16 and bf16 elements as vectors of f32, and back, rounded to nearest: for loops that read or write each
// element once, which would only pass through a buffer otherwise. f32 elements are loaded by the same names.
#pragma once

#include <algorithm>

#include "host_kernels/isa/simd/element_chunk.h"
#include "host_kernels/isa/simd/simd.h"

namespace mydev::kernels::MYDEV_ISA {
namespace {

#if defined(MYDEV_ISA_AVX2)
// The bits of bf16, each in a word.
inline __m256i bf16_bits(__m256 v) {
  const __m256i u = _mm256_castps_si256(v), high = _mm256_srli_epi32(u, 16);
  const __m256i bias = _mm256_add_epi32(_mm256_and_si256(high, _mm256_set1_epi32(1)), _mm256_set1_epi32(0x7fff));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(u, bias), 16);
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc0), nan);
}
#endif

// These load and store as many elements as F32 has lanes.
inline F32 load_values(const float* x) {
  return load(x);
}
inline F32 load_values(const BFloat16Bits* x) {
#if defined(MYDEV_ISA_AVX512)
  const __m512i words =
      _mm512_maskz_cvtepu16_epi32(__mmask16(-1), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
  return reinterpret_cast<F32>(_mm512_maskz_slli_epi32(__mmask16(-1), words, 16));
#elif defined(MYDEV_ISA_AVX2)
  const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
  return reinterpret_cast<F32>(_mm256_slli_epi32(words, 16));
#else
  F32 values;
  for (int i = 0; i < kLanes<float>; ++i) values[i] = x[i];
  return values;
#endif
}
inline F32 load_values(const _Float16* x) {
#if defined(MYDEV_ISA_AVX512)
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
  return reinterpret_cast<F32>(_mm512_maskz_cvtph_ps(__mmask16(-1), halves));
#elif defined(MYDEV_ISA_AVX2)
  return reinterpret_cast<F32>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x))));
#else
  F32 values;
  for (int i = 0; i < kLanes<float>; ++i) values[i] = static_cast<float>(x[i]);
  return values;
#endif
}

inline void store_values(_Float16* to, F32 values) {
  store_halves(reinterpret_cast<const float*>(&values), kLanes<float>, to);
}
inline void store_values(BFloat16Bits* to, F32 values) {
#if defined(MYDEV_ISA_AVX512)
  const __mmask16 all(-1);
  const auto v = reinterpret_cast<__m512>(values);
  const __m512i word = reinterpret_cast<__m512i>(values);
  const __m512i odd = _mm512_maskz_and_epi32(all, _mm512_maskz_srli_epi32(all, word, 16), _mm512_set1_epi32(1));
  const __m512i sum = _mm512_maskz_add_epi32(all, word, _mm512_maskz_add_epi32(all, odd, _mm512_set1_epi32(0x7FFF)));
  const __m512i rounded = _mm512_mask_mov_epi32(_mm512_maskz_srli_epi32(all, sum, 16),
                                                _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), _mm512_set1_epi32(0x7FC0));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_maskz_cvtepi32_epi16(all, rounded));
#elif defined(MYDEV_ISA_AVX2)
  const __m256i rounded = bf16_bits(reinterpret_cast<__m256>(values));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1)));
#else
  for (int i = 0; i < kLanes<float>; ++i) to[i] = BFloat16Bits(values[i]);
#endif
}

template <typename T>
F32 load_partial_values(const T* x, int64_t count) {
  T values[kLanes<float>] = {};
  std::copy_n(x, count, values);
  return load_values(values);
}
template <typename T>
void store_partial_values(T* to, F32 values, int64_t count) {
  T elements[kLanes<float>];
  store_values(elements, values);
  std::copy_n(elements, count, to);
}

}  // namespace
}  // namespace mydev::kernels::MYDEV_ISA
