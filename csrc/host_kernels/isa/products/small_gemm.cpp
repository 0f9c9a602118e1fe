// The inner loops of small_gemm.h for one instruction set, on vectors of its register width.
#include "host_kernels/small_gemm.h"

#include <algorithm>
#include <array>
#include <utility>

#include "host_kernels/isa/simd/dense_values.h"
#include "host_kernels/isa/simd/half_values.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int kWidth = kLanes<float>;
constexpr int kRows = kWidth == 16 ? 8 : 6;
constexpr int kPanel = 2 * kWidth;  // columns that a tile holds
using Vector = F32;

// tile[rows][kVectors * kWidth] = a[rows, k] @ panel[k, kVectors * kWidth]
template <int kTileRows, int kVectors>
void multiply_tile(const float* a, int64_t a_row, int64_t a_col, const float* panel, int64_t panel_row, int64_t k,
                   float* tile, int64_t tile_row, float alpha) {
  Vector sums[kTileRows][kVectors] = {};
  for (int64_t p = 0; p < k; ++p) {
    Vector columns[kVectors];
    for (int v = 0; v < kVectors; ++v) columns[v] = load(panel + p * panel_row + v * kWidth);
    for (int r = 0; r < kTileRows; ++r) {
      const float factor = a[r * a_row + p * a_col];
      for (int v = 0; v < kVectors; ++v) sums[r][v] += columns[v] * factor;
    }
  }
  for (int r = 0; r < kTileRows; ++r) {
    for (int v = 0; v < kVectors; ++v) store(tile + r * tile_row + v * kWidth, sums[r][v] * alpha);
  }
}

using TileFunction = void (*)(const float*, int64_t, int64_t, const float*, int64_t, int64_t, float*, int64_t, float);

struct TileFunctions {
  TileFunction by_vectors_and_rows[2][kRows];
};
template <int... kCounts>
constexpr TileFunctions tile_functions(std::integer_sequence<int, kCounts...>) {
  return {{{multiply_tile<kCounts + 1, 1>...}, {multiply_tile<kCounts + 1, 2>...}}};
}
constexpr TileFunctions kTileFunctions = tile_functions(std::make_integer_sequence<int, kRows>());

// out[rows, columns] (+)= tile, which already holds alpha times the product
void store_tile(const SmallGemm& gemm, int64_t row, int64_t column, int64_t rows, int64_t columns, const float* tile) {
  const bool add = gemm.addend.data != nullptr;
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = tile + r * kPanel;
    float* to = gemm.out.data + (row + r) * gemm.out.row_stride + column * gemm.out.col_stride;
    if (!add) {
      for (int64_t c = 0; c < columns; ++c) to[c * gemm.out.col_stride] = from[c];
      continue;
    }
    const float* addend = gemm.addend.data + (row + r) * gemm.addend.row_stride + column * gemm.addend.col_stride;
    for (int64_t c = 0; c < columns; ++c) {
      to[c * gemm.out.col_stride] = from[c] + gemm.beta * addend[c * gemm.addend.col_stride];
    }
  }
}

void small(const SmallGemm& gemm) {
  alignas(64) float packed[kSmallGemmMaxK * kPanel];
  alignas(64) float tile[kRows * kPanel];
  for (int64_t column = 0; column < gemm.n; column += kPanel) {
    const int64_t columns = std::min<int64_t>(kPanel, gemm.n - column);
    const int vectors = columns > kWidth ? 2 : 1;
    const bool whole = columns == vectors * kWidth;
    const float* panel = reinterpret_cast<const float*>(gemm.b.data) + column * gemm.b.col_stride;
    int64_t panel_row = gemm.b.row_stride;
    if (!whole || gemm.b.col_stride != 1) {
      for (int64_t p = 0; p < gemm.k; ++p) {
        float* to = packed + p * kPanel;
        const float* from = panel + p * gemm.b.row_stride;
        for (int64_t c = 0; c < columns; ++c) to[c] = from[c * gemm.b.col_stride];
        for (int64_t c = columns; c < vectors * kWidth; ++c) to[c] = 0;
      }
      panel = packed;
      panel_row = kPanel;
    }
    const bool direct = whole && gemm.out.col_stride == 1 && gemm.addend.data == nullptr;
    for (int64_t row = 0; row < gemm.m; row += kRows) {
      const int64_t rows = std::min<int64_t>(kRows, gemm.m - row);
      float* to = direct ? gemm.out.data + row * gemm.out.row_stride + column : tile;
      kTileFunctions.by_vectors_and_rows[vectors - 1][rows - 1](
          gemm.a.data + row * gemm.a.row_stride, gemm.a.row_stride, gemm.a.col_stride, panel, panel_row, gemm.k, to,
          direct ? gemm.out.row_stride : kPanel, gemm.alpha);
      if (!direct) store_tile(gemm, row, column, rows, columns, tile);
    }
  }
}

float sum_of(Vector v) {
  return across_lanes<float>(v, kPlus);
}

constexpr int kDotRows = 4, kDotColumns = 4;
// One running sum over a long k loses what is small beside it. So k is cut into blocks, whose sums are added in double.
constexpr int64_t kDotBlock = 4096;
using DotProducts = double[kDotRows][kDotColumns];

// products[r][c] += dot(row r of a, column c of b); k is at most kDotBlock.
template <typename T, int kTileRows, int kTileColumns>
void dot_tile(const float* a, int64_t a_row, const T* b, int64_t b_column, int64_t k, DotProducts& products) {
  constexpr int kChains = std::max(4 / (kTileRows * kTileColumns), 1);  // an addition waits for the one before
  Vector sums[kTileRows][kTileColumns] = {};
  int64_t p = 0;
  if constexpr (kChains > 1) {
    Vector chains[kChains][kTileRows][kTileColumns] = {};
    for (; p + kChains * kWidth <= k; p += kChains * kWidth) {
      for (int i = 0; i < kChains; ++i) {
        for (int r = 0; r < kTileRows; ++r) {
          const Vector row = load(a + r * a_row + p + i * kWidth);
          for (int c = 0; c < kTileColumns; ++c) {
            chains[i][r][c] += row * load_values(b + c * b_column + p + i * kWidth);
          }
        }
      }
    }
    for (int i = 0; i < kChains; ++i) {
      for (int r = 0; r < kTileRows; ++r) {
        for (int c = 0; c < kTileColumns; ++c) sums[r][c] += chains[i][r][c];
      }
    }
  }
  for (; p + kWidth <= k; p += kWidth) {
    Vector rows[kTileRows];
    for (int r = 0; r < kTileRows; ++r) rows[r] = load(a + r * a_row + p);
    for (int c = 0; c < kTileColumns; ++c) {
      const Vector column = load_values(b + c * b_column + p);
      for (int r = 0; r < kTileRows; ++r) sums[r][c] += rows[r] * column;
    }
  }
  for (int r = 0; r < kTileRows; ++r) {
    for (int c = 0; c < kTileColumns; ++c) {
      float sum = sum_of(sums[r][c]);
      for (int64_t q = p; q < k; ++q) sum += a[r * a_row + q] * static_cast<float>(b[c * b_column + q]);
      products[r][c] += static_cast<double>(sum);
    }
  }
}

template <typename T>
using DotFunction = void (*)(const float*, int64_t, const T*, int64_t, int64_t, DotProducts&);

template <typename T>
struct DotFunctions {
  DotFunction<T> by_columns_and_rows[kDotColumns][kDotRows];
};
template <typename T, int... kCounts>
constexpr DotFunctions<T> dot_functions(std::integer_sequence<int, kCounts...>) {
  return {{{dot_tile<T, kCounts + 1, 1>...},
           {dot_tile<T, kCounts + 1, 2>...},
           {dot_tile<T, kCounts + 1, 3>...},
           {dot_tile<T, kCounts + 1, 4>...}}};
}
template <typename T>
constexpr DotFunctions<T> kDotFunctions = dot_functions<T>(std::make_integer_sequence<int, kDotRows>());

template <typename T>
void dot_of_type(const SmallGemm& gemm, int64_t begin, int64_t end) {
  const T* const b = reinterpret_cast<const T*>(gemm.b.data);
  for (int64_t column = begin; column < end; column += kDotColumns) {
    const int64_t columns = std::min<int64_t>(kDotColumns, end - column);
    for (int64_t row = 0; row < gemm.m; row += kDotRows) {
      const int64_t rows = std::min<int64_t>(kDotRows, gemm.m - row);
      const DotFunction<T> add_products = kDotFunctions<T>.by_columns_and_rows[columns - 1][rows - 1];
      DotProducts products = {};
      for (int64_t p = 0; p < gemm.k; p += kDotBlock) {
        add_products(gemm.a.data + row * gemm.a.row_stride + p, gemm.a.row_stride, b + column * gemm.b.col_stride + p,
                     gemm.b.col_stride, std::min(kDotBlock, gemm.k - p), products);
      }
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
          float value = gemm.alpha * static_cast<float>(products[r][c]);
          if (gemm.addend.data != nullptr) {
            value += gemm.beta *
                     gemm.addend.data[(row + r) * gemm.addend.row_stride + (column + c) * gemm.addend.col_stride];
          }
          gemm.out.data[(row + r) * gemm.out.row_stride + (column + c) * gemm.out.col_stride] = value;
        }
      }
    }
  }
}

// Columns of out that are summed at once: with the four rows of b that are read beside them they fit into a first
// cache.
constexpr int64_t kRowColumns = 512;
constexpr int kRowsOfB = 4;
constexpr int64_t kRowBlock = 512;  // rows of b whose products are summed before they are added

template <typename T, int kTileRows>
void add_rows(const SmallGemm& gemm, int64_t row, int64_t begin, int64_t columns) {
  alignas(64) float sums[kTileRows][kRowColumns] = {}, totals[kTileRows][kRowColumns] = {};
  const auto add_sums = [&] {
    for (int r = 0; r < kTileRows; ++r) {
      for (int64_t c = 0; c < columns; ++c) totals[r][c] += sums[r][c];
      std::fill_n(sums[r], kRowColumns, 0.0f);
    }
  };
  const float* const a = gemm.a.data + row * gemm.a.row_stride;
  for (int64_t p = 0; p < gemm.k; p += kRowsOfB) {
    if (p != 0 && p % kRowBlock == 0) add_sums();
    const int64_t rows_of_b = std::min<int64_t>(kRowsOfB, gemm.k - p);
    const T* b[kRowsOfB];
    float factors[kTileRows][kRowsOfB] = {};  // of rows that are not there, 0
    for (int i = 0; i < kRowsOfB; ++i) {
      b[i] = reinterpret_cast<const T*>(gemm.b.data) + std::min(p + i, gemm.k - 1) * gemm.b.row_stride + begin;
      for (int r = 0; i < rows_of_b && r < kTileRows; ++r) {
        factors[r][i] = a[r * gemm.a.row_stride + (p + i) * gemm.a.col_stride];
      }
    }
    const auto add = [&](int64_t c, const auto& load_row) {
      Vector values[kRowsOfB];
      for (int i = 0; i < kRowsOfB; ++i) values[i] = load_row(b[i] + c);
      for (int r = 0; r < kTileRows; ++r) {
        Vector sum = load(&sums[r][c]);
        for (int i = 0; i < kRowsOfB; ++i) sum += values[i] * factors[r][i];
        store(&sums[r][c], sum);
      }
    };
    int64_t c = 0;
    for (; c + kWidth <= columns; c += kWidth) add(c, [](const T* row) { return load_values(row); });
    if (c < columns) add(c, [left = columns - c](const T* row) { return load_partial_values(row, left); });
  }
  for (int r = 0; r < kTileRows; ++r) {
    float* const to = gemm.out.data + (row + r) * gemm.out.row_stride + begin * gemm.out.col_stride;
    const float* const addend = gemm.addend.data == nullptr ? nullptr
                                                            : gemm.addend.data + (row + r) * gemm.addend.row_stride +
                                                                  begin * gemm.addend.col_stride;
    for (int64_t c = 0; c < columns; ++c) {
      const float value = gemm.alpha * (totals[r][c] + sums[r][c]);
      to[c * gemm.out.col_stride] = addend == nullptr ? value : value + gemm.beta * addend[c * gemm.addend.col_stride];
    }
  }
}

using RowsFunction = void (*)(const SmallGemm&, int64_t, int64_t, int64_t);
template <typename T, int... kCounts>
constexpr std::array<RowsFunction, sizeof...(kCounts)> rows_functions(std::integer_sequence<int, kCounts...>) {
  return {add_rows<T, kCounts + 1>...};
}
template <typename T>
constexpr auto kRowsFunctions = rows_functions<T>(std::make_integer_sequence<int, 8>());

template <typename T>
void rows_of_type(const SmallGemm& gemm, int64_t begin, int64_t end) {
  constexpr auto kMost = static_cast<int64_t>(kRowsFunctions<T>.size());
  for (int64_t column = begin; column < end; column += kRowColumns) {
    for (int64_t row = 0; row < gemm.m; row += kMost) {
      const int64_t count = std::min(gemm.m - row, kMost);
      kRowsFunctions<T>[static_cast<size_t>(count - 1)](gemm, row, column, std::min(kRowColumns, end - column));
    }
  }
}

// Calls body<T>() with the type of b's elements.
template <typename Body>
void visit_type(const SmallGemm& gemm, const Body& body) {
  switch (gemm.b.dtype) {
    case MYDEV_F16:
      return body.template operator()<_Float16>();
    case MYDEV_BF16:
      return body.template operator()<BFloat16Bits>();
    default:
      return body.template operator()<float>();
  }
}

void dot(const SmallGemm& gemm, int64_t begin, int64_t end) {
  visit_type(gemm, [&]<typename T>() { dot_of_type<T>(gemm, begin, end); });
}

void rows(const SmallGemm& gemm, int64_t begin, int64_t end) {
  visit_type(gemm, [&]<typename T>() { rows_of_type<T>(gemm, begin, end); });
}

}  // namespace

const SmallGemmFunctions small_gemm = {small, dot, rows};

}  // namespace mydev::kernels::MYDEV_ISA
