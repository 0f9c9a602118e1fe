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

// out[kRows][kVectors vectors] (+)= a[depth][kPanelRows]^T @ b[depth][kVectors vectors]. Rows of b and of out are
// `b_row` and `out_row` elements apart. The product is summed before it is added: long sums lose less in blocks.
template <typename C, bool kAdd, int kRows, int kVectors>
void multiply_panels(const C* a, const C* b, int64_t b_row, int64_t depth, C* out, int64_t out_row) {
  constexpr int64_t n = kLanes<C>;
  Vec<C> tile[kRows][kVectors] = {};
  for (int64_t p = 0; p < depth; ++p, a += kPanelRows, b += b_row) {
    Vec<C> columns[kVectors];
    for (int v = 0; v < kVectors; ++v) columns[v] = load(b + v * n);
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) tile[r][v] += columns[v] * a[r];
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
template <typename C, bool kAdd, int... kCounts>
constexpr std::array<std::array<PanelFunction<C>, kPanelRows>, 2> panel_functions(
    std::integer_sequence<int, kCounts...>) {
  return {{{multiply_panels<C, kAdd, kCounts + 1, 1>...}, {multiply_panels<C, kAdd, kCounts + 1, 2>...}}};
}
// By vectors and rows, less one.
template <typename C, bool kAdd>
constexpr auto kPanelFunctions = panel_functions<C, kAdd>(std::make_integer_sequence<int, kPanelRows>());

}  // namespace
}  // namespace mydev::kernels::MYDEV_ISA
