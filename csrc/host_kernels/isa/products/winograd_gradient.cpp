// The loops of winograd.h for gradients of weights, for one instruction set.
//
// A task transforms some tiles of the image and of the gradient of the results, and adds the products of all pairs of
// channels, summed over its tiles, to sums of the thread that runs it: [16][out_channels][in_channels], whole vectors.
#include <algorithm>

#include "host_kernels/isa/products/panel_product.h"
#include "host_kernels/isa/products/winograd_image.h"
#include "host_kernels/isa/simd/transposed_tile.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int64_t kColumns = 2 * kWidth;  // of sums, which are computed at once

// The memory of a piece of the work, in elements.
struct Piece {
  int64_t row;      // of sums: in_channels as whole vectors
  int64_t numbers;  // of sums
  int64_t sums, bias, image, results, lines, panel;

  Piece(const WinogradConvolution& c, const Blocks& blocks)
      : row(whole(c.in_channels, kWidth)), numbers(c.out_channels * row) {
    sums = whole(kNumbers * numbers, kLine);
    bias = whole(c.out_channels, kLine);
    image = whole(blocks.image_elements(c), kLine);
    results = whole(blocks.result_elements(c), kLine);
    lines = whole(blocks.line_elements() + TransformedImage::lines_elements(blocks), kLine);
    panel = whole(blocks.rows * blocks.columns, kWidth) * kColumns;
  }
  int64_t elements() const { return sums + bias + image + results + lines + panel; }
};

Blocks blocks_of(const WinogradGradient& g) {
  return {g.convolution, g.task_tiles};
}

uint64_t piece_bytes(const WinogradGradient& g) {
  return static_cast<uint64_t>(Piece(g.convolution, blocks_of(g)).elements()) * sizeof(float);
}

class GradientTask {
 public:
  GradientTask(const WinogradGradient& g, int64_t task, float* memory)
      : c_(g.convolution),
        tiles_(c_, blocks_of(g), task),
        piece_(c_, tiles_.blocks),
        has_bias_(g.grad_bias != nullptr),
        sums_(memory),
        bias_(sums_ + piece_.sums),
        results_(bias_ + piece_.bias + piece_.image),
        line_(results_ + piece_.results),
        panel_(line_ + piece_.lines),
        image_(c_, tiles_, bias_ + piece_.bias, line_, line_ + blocks_.line_elements()) {}

  void run(bool is_first) {
    for (int64_t channel = 0; channel < c_.in_channels; ++channel) image_.transform(channel);
    for (int64_t channel = 0; channel < c_.out_channels; ++channel) transform_gradient(channel, is_first);
    for (int64_t number = 0; number < kNumbers; ++number) {
      for (int64_t channel = 0; channel < c_.in_channels; channel += kColumns) multiply(number, channel, is_first);
    }
  }

 private:
  int64_t depth() const { return whole(tiles_.count(), kWidth); }

  // A row of the gradient, transformed along itself: [e, e + o, e - o, -o] of its values at even and odd places.
  void read_line(const float* row, F32 (&numbers)[4], int64_t t) const {
    const auto [even, odd] = split(load(row + 2 * t), load(row + 2 * t + kWidth));
    numbers[0] = even;
    numbers[1] = even + odd;
    numbers[2] = even - odd;
    numbers[3] = -odd;
  }

  // M = A g A^T
  void transform_gradient(int64_t channel, bool is_first) const {
    const int64_t down = c_.tiles_down(), next = c_.out_channels * blocks_.stride;
    float* const lower = line_ + blocks_.line_elements() / 2;
    const int64_t width = std::min(2 * tiles_.columns, c_.out_width - 2 * tiles_.first_column);
    for (int64_t row = 0; row < tiles_.rows; ++row) {
      const int64_t image = (tiles_.first_row + row) / down, h = (tiles_.first_row + row) % down * 2;
      const float* const from =
          c_.out + ((image * c_.out_channels + channel) * c_.out_height + h) * c_.out_width + 2 * tiles_.first_column;
      const int64_t below = h + 1 < c_.out_height ? width : 0;
      std::fill(std::copy_n(from, width, line_), line_ + 2 * blocks_.pitch, 0.0f);
      std::fill(std::copy_n(below == 0 ? from : from + c_.out_width, below, lower), lower + 2 * blocks_.pitch, 0.0f);
      float* const to = results_at(0, channel) + row * tiles_.columns;
      for (int64_t t = 0; t < tiles_.columns; t += kWidth) {
        F32 upper_numbers[4], lower_numbers[4];
        read_line(line_, upper_numbers, t);
        read_line(lower, lower_numbers, t);
        for (int64_t j = 0; j < 4; ++j) {
          const F32 u = upper_numbers[j], l = lower_numbers[j];
          store(to + j * next + t, u);  // what is beyond the row's end is written again by the next row
          store(to + (4 + j) * next + t, u + l);
          store(to + (8 + j) * next + t, u - l);
          store(to + (12 + j) * next + t, -l);
        }
      }
    }
    for (int64_t number = 0; number < kNumbers; ++number) {
      float* const numbers = results_at(number, channel);
      std::fill(numbers + tiles_.count(), numbers + depth(), 0.0f);
    }
    if (has_bias_) add_to_bias(channel, is_first);
  }

  // Number 5 of a tile is the sum of its values.
  void add_to_bias(int64_t channel, bool is_first) const {
    const float* const tile_sums = results_at(5, channel);
    F32 sum{};
    for (int64_t t = 0; t < depth(); t += kWidth) sum += load(tile_sums + t);
    float total = is_first ? 0.0f : bias_[channel];
    for (int64_t i = 0; i < kWidth; ++i) total += sum[i];
    bias_[channel] = total;
  }

  // sums[out channel][in channels from `channel` on] += M @ V^T
  void multiply(int64_t number, int64_t channel, bool is_first) const {
    const int64_t lines = std::min(kColumns, c_.in_channels - channel), columns = whole(lines, kWidth);
    if (lines < columns) std::fill_n(panel_, depth() * kColumns, 0.0f);
    constexpr int64_t kSide = kTile<uint32_t>;
    for (int64_t t = 0; t < depth(); t += kSide) {
      for (int64_t line = 0; line < lines; line += kSide) {
        transpose_into(reinterpret_cast<uint32_t*>(panel_) + t * kColumns + line, kColumns,
                       reinterpret_cast<const char*>(image_.at(number, channel + line) + t),
                       blocks_.stride * static_cast<int64_t>(sizeof(float)), std::min(kSide, depth() - t),
                       std::min(kSide, lines - line));
      }
    }
    const MatrixView<float> gradient{results_at(number, 0), blocks_.stride, 1};
    float* const to = sums_ + number * piece_.numbers + channel;
    if (is_first) {
      mydev::kernels::MYDEV_ISA::multiply<false>(gradient, panel_, kColumns, c_.out_channels, depth(), columns, to,
                                                 piece_.row);
    } else {
      mydev::kernels::MYDEV_ISA::multiply<true>(gradient, panel_, kColumns, c_.out_channels, depth(), columns, to,
                                                piece_.row);
    }
  }

  float* results_at(int64_t number, int64_t channel) const {
    return results_ + (number * c_.out_channels + channel) * blocks_.stride;
  }

  const WinogradConvolution& c_;
  const TaskTiles tiles_;
  const Blocks& blocks_ = tiles_.blocks;
  const Piece piece_;
  const bool has_bias_;
  float *const sums_, *const bias_, *const results_, *const line_, *const panel_;
  TransformedImage image_;
};

int64_t tasks(const WinogradGradient& g) {
  const Blocks blocks = blocks_of(g);
  return blocks.down * blocks.across;
}

void run(const WinogradGradient& g, int64_t task, bool is_first, void* memory) {
  GradientTask(g, task, static_cast<float*>(memory)).run(is_first);
}

// Adds the sums of all pieces, and transforms them: w = G^T u G, for output channels [begin, end).
void finish(const WinogradGradient& g, int64_t pieces, int64_t begin, int64_t end, void* memory) {
  const WinogradConvolution& c = g.convolution;
  const Piece piece(c, blocks_of(g));
  float* const sums = static_cast<float*>(memory);
  const auto transform = [](const auto& u, auto& w) {
    const F32 inner = 0.5f * (u[1] + u[2]);
    w[0] = u[0] + inner;
    w[1] = 0.5f * (u[1] - u[2]);
    w[2] = inner + u[3];
  };
  for (int64_t out = begin; out < end; ++out) {
    for (int64_t in = 0; in < c.in_channels; in += kWidth) {
      F32 rows[4][4], columns[4][3], weights[3][3];
      for (int64_t number = 0; number < kNumbers; ++number) {
        F32 sum{};
        for (int64_t i = 0; i < pieces; ++i) {
          sum += load(sums + i * piece.elements() + number * piece.numbers + out * piece.row + in);
        }
        rows[number / 4][number % 4] = sum;
      }
      for (int64_t i = 0; i < 4; ++i) transform(rows[i], columns[i]);
      for (int64_t j = 0; j < 3; ++j) {
        const F32 u[4] = {columns[0][j], columns[1][j], columns[2][j], columns[3][j]};
        F32 w[3];
        transform(u, w);
        for (int64_t i = 0; i < 3; ++i) weights[i][j] = w[i];
      }
      float* const to = g.grad_weight + (out * c.in_channels + in) * 9;
      const int64_t count = std::min(kWidth, c.in_channels - in);
      for (int64_t tap = 0; tap < 9; ++tap) {
        for (int64_t k = 0; k < count; ++k) to[k * 9 + tap] = weights[tap / 3][tap % 3][k];
      }
    }
    if (g.grad_bias == nullptr) continue;
    float bias = 0;
    for (int64_t i = 0; i < pieces; ++i) bias += sums[i * piece.elements() + piece.sums + out];
    g.grad_bias[out] = bias;
  }
}

}  // namespace

const WinogradGradientLoops winograd_gradient_loops = {piece_bytes, tasks, run, finish};

}  // namespace mydev::kernels::MYDEV_ISA
