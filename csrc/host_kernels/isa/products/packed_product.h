// Products of packed panels, held in registers: of a, as many rows as a tile has lie interleaved; of b, two vectors of
// columns are read from row to row (K. Goto and R. van de Geijn, Anatomy of High-Performance Matrix Multiplication,
// 2008).
#pragma once

#include <array>
#include <utility>

#include "host_kernels/isa/simd/simd.h"

namespace mydev::kernels::MYDEV_ISA {
namespace {

#if defined(MYDEV_ISA_AVX512)
constexpr int kPanelRows = 8;  // of a
#else
constexpr int kPanelRows = 6;
#endif
template <typename C>
constexpr int64_t kPanelColumns = 2 * kLanes<C>;  // of b

// Panels of plain numbers.
template <typename C>
struct Whole {
  using Number = C;
  static void add_product(Vec<C>& sum, Vec<C> column, C row) { sum += column * row; }
};

// Panels of words, each of two 16-bit integers whose products are both added. Sums wrap around.
struct ShortPairs {
  using Number = uint32_t;
  static uint32_t pair(int16_t low, int16_t high) {
    return static_cast<uint16_t>(low) | static_cast<uint32_t>(static_cast<uint16_t>(high)) << 16;
  }
  static void add_product(Vec<uint32_t>& sum, Vec<uint32_t> column, uint32_t row) {
#if defined(MYDEV_ISA_AVX512)
    const __m512i rows = _mm512_set1_epi32(static_cast<int>(row));
    sum += reinterpret_cast<Vec<uint32_t>>(_mm512_madd_epi16(reinterpret_cast<__m512i>(column), rows));
#elif defined(MYDEV_ISA_AVX2)
    const __m256i rows = _mm256_set1_epi32(static_cast<int>(row));
    sum += reinterpret_cast<Vec<uint32_t>>(_mm256_madd_epi16(reinterpret_cast<__m256i>(column), rows));
#else
    // Arithmetic shifts of signed numbers spread the sign.
    const auto words = reinterpret_cast<I32>(column);
    const auto low = reinterpret_cast<Vec<uint32_t>>((words << 16) >> 16);
    const auto high = reinterpret_cast<Vec<uint32_t>>(words >> 16);
    sum += low * static_cast<uint32_t>(static_cast<int16_t>(row)) +
           high * static_cast<uint32_t>(static_cast<int32_t>(row) >> 16);
#endif
  }
};

// out[kRows][kVectors vectors] (+)= a[depth][kPanelRows]^T @ b[depth][kVectors vectors]. Rows of b and of out are
// `b_row` and `out_row` elements apart. The product is summed before it is added: long sums lose less in blocks.
template <typename As, bool kAdd, int kRows, int kVectors>
void multiply_panels(const typename As::Number* a, const typename As::Number* b, int64_t b_row, int64_t depth,
                     typename As::Number* out, int64_t out_row) {
  using C = typename As::Number;
  constexpr int64_t n = kLanes<C>;
  Vec<C> tile[kRows][kVectors] = {};
  for (int64_t p = 0; p < depth; ++p, a += kPanelRows, b += b_row) {
    Vec<C> columns[kVectors];
    for (int v = 0; v < kVectors; ++v) columns[v] = load(b + v * n);
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) As::add_product(tile[r][v], columns[v], a[r]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      C* const to = out + r * out_row + v * n;
      store(to, kAdd ? load(to) + tile[r][v] : tile[r][v]);
    }
  }
}

template <typename C>
using PanelFunction = void (*)(const C*, const C*, int64_t, int64_t, C*, int64_t);
template <typename As, bool kAdd, int... kCounts>
constexpr std::array<std::array<PanelFunction<typename As::Number>, kPanelRows>, 2> panel_functions(
    std::integer_sequence<int, kCounts...>) {
  return {{{multiply_panels<As, kAdd, kCounts + 1, 1>...}, {multiply_panels<As, kAdd, kCounts + 1, 2>...}}};
}
// By vectors and rows, less one.
template <typename As, bool kAdd>
constexpr auto kPanelFunctions = panel_functions<As, kAdd>(std::make_integer_sequence<int, kPanelRows>());

}  // namespace
}  // namespace mydev::kernels::MYDEV_ISA
