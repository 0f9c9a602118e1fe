// Dot products of 8- and 16-bit integers that lie one behind the other, modulo 2^32: for few rows, which do not earn
// the packing of packed_product.h back.
#pragma once

#include <array>
#include <utility>

#include "host_kernels/isa/simd/dense_values.h"
#include "host_kernels/isa/simd/simd.h"

namespace mydev::kernels::MYDEV_ISA {
namespace {

constexpr int kIntegerDotRows = 2, kIntegerDotColumns = 4;
using IntegerDots = uint32_t[kIntegerDotRows][kIntegerDotColumns];

// Vec<int16_t> of as many elements, and sums of neighbours' products.
inline Vec<int16_t> load_shorts(const int16_t* p) {
  return load(p);
}
template <typename T>
Vec<int16_t> load_shorts(const T* p) {
#if defined(MYDEV_ISA_AVX512)
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  constexpr __mmask32 kAllLanes(-1);
  return reinterpret_cast<Vec<int16_t>>(std::is_signed_v<T> ? _mm512_maskz_cvtepi8_epi16(kAllLanes, bytes)
                                                            : _mm512_maskz_cvtepu8_epi16(kAllLanes, bytes));
#elif defined(MYDEV_ISA_AVX2)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return reinterpret_cast<Vec<int16_t>>(std::is_signed_v<T> ? _mm256_cvtepi8_epi16(bytes)
                                                            : _mm256_cvtepu8_epi16(bytes));
#else
  Vec<int16_t> shorts;
  for (int i = 0; i < kLanes<int16_t>; ++i) shorts[i] = p[i];
  return shorts;
#endif
}
inline Vec<uint32_t> neighbours_products(Vec<int16_t> a, Vec<int16_t> b) {
#if defined(MYDEV_ISA_AVX512)
  return reinterpret_cast<Vec<uint32_t>>(_mm512_madd_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(MYDEV_ISA_AVX2)
  return reinterpret_cast<Vec<uint32_t>>(_mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#else
  const auto products = [&](int shift) {
    const auto number = [shift](Vec<int16_t> v) {
      return reinterpret_cast<Vec<uint32_t>>((reinterpret_cast<I32>(v) << shift) >> 16);
    };
    return number(a) * number(b);
  };
  return products(16) + products(0);
#endif
}

// dots[r][c] = dot(row r of a, column c of b).
template <typename T, int kRows, int kColumns>
void integer_dots(const T* a, int64_t a_row, const T* b, int64_t b_column, int64_t k, IntegerDots& dots) {
  constexpr int64_t kWidth = kLanes<int16_t>;
  Vec<uint32_t> sums[kRows][kColumns] = {};
  int64_t p = 0;
  for (; p + kWidth <= k; p += kWidth) {
    Vec<int16_t> columns[kColumns];
    for (int c = 0; c < kColumns; ++c) columns[c] = load_shorts(b + c * b_column + p);
    for (int r = 0; r < kRows; ++r) {
      const Vec<int16_t> row = load_shorts(a + r * a_row + p);
      for (int c = 0; c < kColumns; ++c) sums[r][c] += neighbours_products(row, columns[c]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) {
      uint32_t sum = across_lanes<uint32_t>(sums[r][c], [](auto x, auto y) { return x + y; });
      for (int64_t q = p; q < k; ++q) {
        sum += static_cast<uint32_t>(a[r * a_row + q]) * static_cast<uint32_t>(b[c * b_column + q]);
      }
      dots[r][c] = sum;
    }
  }
}

template <typename T>
using IntegerDotFunction = void (*)(const T*, int64_t, const T*, int64_t, int64_t, IntegerDots&);
template <typename T, int... kCounts>
constexpr std::array<std::array<IntegerDotFunction<T>, kIntegerDotColumns>, kIntegerDotRows> integer_dot_functions(
    std::integer_sequence<int, kCounts...>) {
  return {{{integer_dots<T, 1, kCounts + 1>...}, {integer_dots<T, 2, kCounts + 1>...}}};
}
// By rows and columns, less one.
template <typename T>
constexpr auto kIntegerDotFunctions = integer_dot_functions<T>(std::make_integer_sequence<int, kIntegerDotColumns>());

}  // namespace
}  // namespace mydev::kernels::MYDEV_ISA
