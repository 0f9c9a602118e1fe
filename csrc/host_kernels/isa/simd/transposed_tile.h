// Tiles of a tensor that is transposed on its way, in registers.
#pragma once

#include <algorithm>
#include <cstring>

#include "host_kernels/isa/isa.h"
#include "host_kernels/isa/simd/simd.h"

namespace mydev::kernels::MYDEV_ISA {
namespace {

// Elements of a tile's side: of small ones as many as fill a line.
template <typename T>
constexpr int64_t kTile = std::max<int64_t>(32, 64 / sizeof(T));

// In registers: blocks of 16-byte rows of small elements, each step a perfect shuffle of the rows' first half with
// their second (H. S. Stone, Parallel Processing with the Perfect Shuffle, 1971) ...
template <typename T>
struct Block {
  static constexpr int64_t kSide = 16 / sizeof(T);
  using Row = typename detail::VectorType<T, 16>::type;

  static void transpose(Row* r) {
    Row shuffled[kSide];
    for (int64_t step = 1; step < kSide; step *= 2) {
      for (int64_t i = 0; i < kSide / 2; ++i) {
        if constexpr (sizeof(T) == 1) {
          shuffled[2 * i] =
              __builtin_shufflevector(r[i], r[i + kSide / 2], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
          shuffled[2 * i + 1] = __builtin_shufflevector(r[i], r[i + kSide / 2], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28,
                                                        13, 29, 14, 30, 15, 31);
        } else {
          shuffled[2 * i] = __builtin_shufflevector(r[i], r[i + kSide / 2], 0, 8, 1, 9, 2, 10, 3, 11);
          shuffled[2 * i + 1] = __builtin_shufflevector(r[i], r[i + kSide / 2], 4, 12, 5, 13, 6, 14, 7, 15);
        }
      }
      std::copy_n(shuffled, kSide, r);
    }
  }
};
// ... and of 32-byte rows of the others.
template <>
struct Block<uint32_t> {
  static constexpr int64_t kSide = 8;
  using Row = detail::VectorType<uint32_t, 32>::type;

  static void transpose(Row* r) {
    Row a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
      a[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
      a[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4) {
      for (int j = 0; j < 2; ++j) {
        b[i + 2 * j] = __builtin_shufflevector(a[i + j], a[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        b[i + 2 * j + 1] = __builtin_shufflevector(a[i + j], a[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
      }
    }
    for (int i = 0; i < 4; ++i) {
      r[i] = __builtin_shufflevector(b[i], b[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
      r[i + 4] = __builtin_shufflevector(b[i], b[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
  }
};
template <>
struct Block<uint64_t> {
  static constexpr int64_t kSide = 4;
  using Row = detail::VectorType<uint64_t, 32>::type;

  static void transpose(Row* r) {
    const Row a0 = __builtin_shufflevector(r[0], r[1], 0, 4, 2, 6),
              a1 = __builtin_shufflevector(r[0], r[1], 1, 5, 3, 7);
    const Row a2 = __builtin_shufflevector(r[2], r[3], 0, 4, 2, 6),
              a3 = __builtin_shufflevector(r[2], r[3], 1, 5, 3, 7);
    r[0] = __builtin_shufflevector(a0, a2, 0, 1, 4, 5);
    r[1] = __builtin_shufflevector(a1, a3, 0, 1, 4, 5);
    r[2] = __builtin_shufflevector(a0, a2, 2, 3, 6, 7);
    r[3] = __builtin_shufflevector(a1, a3, 2, 3, 6, 7);
  }
};

// tile[r][c] = in[c][r], of at most kTile<T> rows and columns. Rows of the tile are `tile_row` elements apart, rows of
// in `in_row` bytes.
template <typename T>
void transpose_into(T* tile, int64_t tile_row, const char* in, int64_t in_row, int64_t rows, int64_t columns) {
  constexpr int64_t kSide = Block<T>::kSide;
  if (rows % kSide != 0 || columns % kSide != 0) {
    for (int64_t c = 0; c < columns; ++c) {
      T line[kTile<T>];
      std::memcpy(line, in + c * in_row, static_cast<size_t>(rows) * sizeof(T));
      for (int64_t r = 0; r < rows; ++r) tile[r * tile_row + c] = line[r];
    }
    return;
  }
  typename Block<T>::Row block[kSide];
  for (int64_t c = 0; c < columns; c += kSide) {
    for (int64_t r = 0; r < rows; r += kSide) {
      for (int64_t i = 0; i < kSide; ++i) {
        typename Block<T>::Row row;  // one load, where the array itself would be filled by halves
        std::memcpy(&row, in + (c + i) * in_row + r * int64_t{sizeof(T)}, sizeof(row));
        block[i] = row;
      }
      Block<T>::transpose(block);
      for (int64_t i = 0; i < kSide; ++i) {
        const typename Block<T>::Row row = block[i];
        std::memcpy(tile + (r + i) * tile_row + c, &row, sizeof(row));
      }
    }
  }
}

}  // namespace
}  // namespace mydev::kernels::MYDEV_ISA
