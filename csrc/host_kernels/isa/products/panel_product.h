// Products with a panel of a few vectors of columns, held in registers: small matrix products in f32 and f64 that add
// to their result, for kernels made of them.
#pragma once

#include <utility>

#include "host_kernels/isa/simd/simd.h"

namespace mydev::kernels::MYDEV_ISA {
namespace {

#if defined(MYDEV_ISA_AVX512)
inline constexpr int kTileRows = 8;
#else
inline constexpr int kTileRows = 6;
#endif

// The left operand of a product, of any strides.
template <typename C>
struct MatrixView {
  const C* data;
  int64_t row, column;
  MatrixView transposed() const { return {data, column, row}; }
  MatrixView from_row(int64_t first) const { return {data + first * row, row, column}; }
};

// out[kRows][kVectors vectors] (+)= a[kRows, depth] @ b[depth][kVectors vectors]
template <typename C, int kRows, int kVectors, bool kAdd>
void multiply_tile(MatrixView<C> a, const C* b, int64_t b_row, int64_t depth, C* out, int64_t out_row) {
  constexpr int64_t n = kLanes<C>;
  Vec<C> sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sums[r][v] = kAdd ? load(out + r * out_row + v * n) : Vec<C>{};
  }
  for (int64_t p = 0; p < depth; ++p) {
    Vec<C> columns[kVectors];
    for (int v = 0; v < kVectors; ++v) columns[v] = load(b + p * b_row + v * n);
    for (int r = 0; r < kRows; ++r) {
      const C factor = a.data[r * a.row + p * a.column];
      for (int v = 0; v < kVectors; ++v) sums[r][v] += columns[v] * factor;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) store(out + r * out_row + v * n, sums[r][v]);
  }
}

template <typename C>
using TileFunction = void (*)(MatrixView<C>, const C*, int64_t, int64_t, C*, int64_t);

template <typename C, int kVectors, bool kAdd, int... kCounts>
void multiply_rows(std::integer_sequence<int, kCounts...>, MatrixView<C> a, const C* b, int64_t b_row, int64_t rows,
                   int64_t depth, C* out, int64_t out_row) {
  static constexpr TileFunction<C> kTiles[] = {multiply_tile<C, kCounts + 1, kVectors, kAdd>...};
  for (int64_t row = 0; row < rows; row += kTileRows) {
    const int64_t left = rows - row < kTileRows ? rows - row : kTileRows;
    kTiles[left - 1](a.from_row(row), b, b_row, depth, out + row * out_row, out_row);
  }
}

// out[rows][columns] = a[rows, depth] @ b[depth][columns], or added to it. The columns are whole vectors; b and out are
// dense along them.
template <bool kAdd, typename C>
void multiply(MatrixView<C> a, const C* b, int64_t b_row, int64_t rows, int64_t depth, int64_t columns, C* out,
              int64_t out_row) {
  constexpr auto counts = std::make_integer_sequence<int, kTileRows>();
  constexpr int64_t n = kLanes<C>;
  int64_t at = 0;
  for (; at + 2 * n <= columns; at += 2 * n) {
    multiply_rows<C, 2, kAdd>(counts, a, b + at, b_row, rows, depth, out + at, out_row);
  }
  if (at < columns) multiply_rows<C, 1, kAdd>(counts, a, b + at, b_row, rows, depth, out + at, out_row);
}

}  // namespace
}  // namespace mydev::kernels::MYDEV_ISA
