// Parts that Winograd's convolutions and their gradients share: how work is cut into tasks, and the transformed image.
// image.
#pragma once

#include <algorithm>
#include <utility>

#include "host_kernels/isa/simd/simd.h"
#include "host_kernels/winograd.h"

namespace mydev::kernels::MYDEV_ISA {
namespace {

constexpr int64_t kNumbers = 16;       // of a tile
constexpr int64_t kMostColumns = 128;  // of tiles, of a task
constexpr int64_t kLine = 64 / sizeof(float);
constexpr int64_t kWidth = kLanes<float>;

struct Vectors {
  F32 first, second;
};
// The values at even places of both, one after the other, and those at odd places.
Vectors split(F32 a, F32 b) {
  return [&]<int... i>(std::integer_sequence<int, i...>) {
    return Vectors{__builtin_shufflevector(a, b, 2 * i...), __builtin_shufflevector(a, b, 2 * i + 1 ...)};
  }(std::make_integer_sequence<int, kWidth>());
}

int64_t whole(int64_t size, int64_t unit) {
  return (size + unit - 1) / unit * unit;
}

// How a convolution is cut into tasks.
struct Blocks {
  int64_t rows, columns;  // of tiles, of a task
  int64_t down, across;   // tasks
  int64_t stride;         // elements between channels
  int64_t pitch;          // columns as whole vectors

  // `wanted`: tiles of a task, about.
  Blocks(const WinogradConvolution& c, int64_t wanted) {
    across = (c.tiles_across() + kMostColumns - 1) / kMostColumns;
    columns = (c.tiles_across() + across - 1) / across;
    const int64_t all = c.images * c.tiles_down();
    down = (all + std::max<int64_t>(wanted / columns, 1) - 1) / std::max<int64_t>(wanted / columns, 1);
    if (down % 2 != 0 && all > 1) ++down;  // for a pair of threads
    rows = (all + down - 1) / down;
    down = (all + rows - 1) / rows;
    // Behind the last row of tiles there is place for the rest of a vector. An odd number of lines, so that channels do
    // not take each other's places in the cache.
    stride = whole(rows * columns + kWidth, kLine);
    if (stride / kLine % 2 == 0) stride += kLine;
    pitch = whole(columns, kLine);
  }
  // Vectors may end one vector behind the last element.
  int64_t image_elements(const WinogradConvolution& c) const { return kNumbers * c.in_channels * stride + kLine; }
  int64_t result_elements(const WinogradConvolution& c) const { return kNumbers * c.out_channels * stride + kLine; }
  int64_t line_elements() const { return 4 * pitch + 4 * kLine; }  // a row of the image, or two of results
};

// The tiles of a task: some rows of them, counted over all images, or parts of the rows.
struct TaskTiles {
  const Blocks blocks;
  const int64_t first_row, rows, first_column, columns;

  TaskTiles(const WinogradConvolution& c, const Blocks& all, int64_t task)
      : blocks(all),
        first_row(task / blocks.across * blocks.rows),
        rows(std::min(blocks.rows, c.images * c.tiles_down() - first_row)),
        first_column(task % blocks.across * blocks.columns),
        columns(std::min(blocks.columns, c.tiles_across() - first_column)) {}
  int64_t count() const { return rows * columns; }
};

// V = B^T d B of the tiles of a task: [16][in_channels][tiles], in memory of image_elements(); `line` has place for a
// row of the image, `lines` for four transformed ones. Behind the last tile there are zeros up to a whole vector.
class TransformedImage {
 public:
  TransformedImage(const WinogradConvolution& c, const TaskTiles& tiles, float* image, float* line, float* lines)
      : c_(c), tiles_(tiles), blocks_(tiles.blocks), image_(image), line_(line), lines_(lines) {}

  static int64_t lines_elements(const Blocks& blocks) { return 4 * 4 * blocks.pitch; }

  void transform(int64_t channel) {
    const int64_t down = c_.tiles_down(), pitch = blocks_.pitch, line_size = 4 * pitch;
    float* lines[4] = {lines_, lines_ + line_size, lines_ + 2 * line_size, lines_ + 3 * line_size};
    for (int64_t row = 0; row < tiles_.rows; ++row) {
      const int64_t image = (tiles_.first_row + row) / down, tile = (tiles_.first_row + row) % down;
      const float* const plane = c_.x + (image * c_.in_channels + channel) * c_.in_height * c_.in_width;
      const int64_t h = 2 * tile - c_.padding_top;
      const bool follows = row > 0 && tile > 0;  // two lines are those of the row before
      if (follows) {
        std::swap(lines[0], lines[2]);
        std::swap(lines[1], lines[3]);
      }
      for (int64_t i = follows ? 2 : 0; i < 4; ++i) transform_line(plane, h + i, lines[i]);
      for (int64_t j = 0; j < 4; ++j) {
        float* const to = at(j, channel) + row * tiles_.columns;
        const int64_t next = 4 * c_.in_channels * blocks_.stride;  // number 4 + j
        for (int64_t t = 0; t < tiles_.columns; t += kWidth) {
          const F32 d0 = load(lines[0] + j * pitch + t), d1 = load(lines[1] + j * pitch + t);
          const F32 d2 = load(lines[2] + j * pitch + t), d3 = load(lines[3] + j * pitch + t);
          store(to + t, d0 - d2);  // what is beyond the row's end is written again by the next row
          store(to + next + t, d1 + d2);
          store(to + 2 * next + t, d2 - d1);
          store(to + 3 * next + t, d1 - d3);
        }
      }
    }
    const int64_t tiles = tiles_.rows * tiles_.columns, beyond = whole(tiles, kWidth) - tiles;
    for (int64_t i = 0; i < kNumbers; ++i) std::fill_n(at(i, channel) + tiles, beyond, 0.0f);
  }

  float* at(int64_t number, int64_t channel) const {
    return image_ + (number * c_.in_channels + channel) * blocks_.stride;
  }

 private:
  // Row h of a plane of the image, transformed along itself: line[j] has a number for each tile.
  void transform_line(const float* plane, int64_t h, float* line) const {
    const int64_t pitch = blocks_.pitch;
    if (h < 0 || h >= c_.in_height) {
      std::fill_n(line, 4 * pitch, 0.0f);
      return;
    }
    const int64_t first = 2 * tiles_.first_column - c_.padding_left, count = 2 * tiles_.columns + 2;
    const int64_t before = std::clamp<int64_t>(-first, 0, count);
    const int64_t inside = std::clamp<int64_t>(c_.in_width - first - before, 0, count - before);
    std::fill_n(line_, before, 0.0f);
    std::copy_n(plane + h * c_.in_width + first + before, inside, line_ + before);
    std::fill_n(line_ + before + inside, count - before - inside, 0.0f);
    for (int64_t t = 0; t < tiles_.columns; t += kWidth) {
      const auto [d0, d1] = split(load(line_ + 2 * t), load(line_ + 2 * t + kWidth));
      const auto [d2, d3] = split(load(line_ + 2 * t + 2), load(line_ + 2 * t + 2 + kWidth));
      store(line + t, d0 - d2);
      store(line + pitch + t, d1 + d2);
      store(line + 2 * pitch + t, d2 - d1);
      store(line + 3 * pitch + t, d1 - d3);
    }
  }

  const WinogradConvolution& c_;
  const TaskTiles& tiles_;
  const Blocks& blocks_;
  float *const image_, *const line_, *const lines_;
};

}  // namespace
}  // namespace mydev::kernels::MYDEV_ISA
