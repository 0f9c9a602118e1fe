// The loops of winograd.h for one instruction set.
//
// A task computes some rows of tiles, or parts of them, for all channels. Vectors hold one number of as many tiles,
// side by side. The transformed image is [16][in_channels][tiles], and the results before their transformation are
// [16][out_channels][tiles], in the task's memory, which is sized for the second-level cache.
#include "host_kernels/winograd.h"

#include <algorithm>
#include <cstring>

#include "host_kernels/isa/products/packed_product.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int64_t kNumbers = 16;  // of a tile
constexpr int64_t kTaskBytes = 1 << 20, kFewTiles = 96, kManyTiles = 128;
constexpr int64_t kColumns = kPanelColumns<float>, kBlockChannels = 128;
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
// a[0], b[0], a[1], b[1], ...
Vectors joined(F32 a, F32 b) {
  return [&]<int... i>(std::integer_sequence<int, i...>) {
    return Vectors{__builtin_shufflevector(a, b, (i % 2 * kWidth + i / 2)...),
                   __builtin_shufflevector(a, b, (i % 2 * kWidth + i / 2 + kWidth / 2)...)};
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

  explicit Blocks(const WinogradConvolution& c) {
    const int64_t channels = c.in_channels + c.out_channels;
    const int64_t wanted =
        std::clamp(kTaskBytes / (kNumbers * int64_t{sizeof(float)} * channels), kFewTiles, kManyTiles);
    across = (c.tiles_across() + kManyTiles - 1) / kManyTiles;
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

// --- weights ---------------------------------------------------------------------------------------------------------

// [16][panels of out_channels][in_channels][kPanelRows]
int64_t panels_of(const WinogradConvolution& c) {
  return (c.out_channels + kPanelRows - 1) / kPanelRows;
}
uint64_t weight_bytes(const WinogradConvolution& c) {
  return static_cast<uint64_t>(kNumbers * panels_of(c) * c.in_channels * kPanelRows) * sizeof(float);
}

// U = G g G^T, for a panel of output channels.
void transform_weights(const WinogradConvolution& c, int64_t panel, void* transformed) {
  using Values = float[kPanelRows];
  const int64_t first = panel * kPanelRows, count = std::min<int64_t>(kPanelRows, c.out_channels - first);
  const int64_t panel_elements = c.in_channels * kPanelRows;
  float* const to = static_cast<float*>(transformed) + panel * panel_elements;
  const auto transform = [](const float* g0, const float* g1, const float* g2, Values(&u)[4]) {
    for (int r = 0; r < kPanelRows; ++r) {
      const float outer = g0[r] + g2[r];
      u[0][r] = g0[r];
      u[1][r] = 0.5f * (outer + g1[r]);
      u[2][r] = 0.5f * (outer - g1[r]);
      u[3][r] = g2[r];
    }
  };
  Values g[3][3] = {};
  for (int64_t in = 0; in < c.in_channels; ++in) {
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 3; ++j) {
        const float* const from =
            c.weights + first * c.weight_out + in * c.weight_in + i * c.weight_row + j * c.weight_column;
        for (int64_t r = 0; r < count; ++r) g[i][j][r] = from[r * c.weight_out];
      }
    }
    Values rows[3][4], u[4];
    for (int i = 0; i < 3; ++i) transform(g[i][0], g[i][1], g[i][2], rows[i]);
    for (int64_t j = 0; j < 4; ++j) {
      transform(rows[0][j], rows[1][j], rows[2][j], u);
      for (int64_t i = 0; i < 4; ++i) {
        std::memcpy(to + (i * 4 + j) * panels_of(c) * panel_elements + in * kPanelRows, u[i], sizeof(Values));
      }
    }
  }
}

// --- a task ----------------------------------------------------------------------------------------------------------

class Task {
 public:
  Task(const WinogradConvolution& c, int64_t task, const void* weights, void* memory)
      : c_(c),
        blocks_(c),
        first_row_(task / blocks_.across * blocks_.rows),
        rows_(std::min(blocks_.rows, c.images * c.tiles_down() - first_row_)),
        first_column_(task % blocks_.across * blocks_.columns),
        columns_(std::min(blocks_.columns, c.tiles_across() - first_column_)),
        weights_(static_cast<const float*>(weights)),
        image_(static_cast<float*>(memory)),
        results_(image_ + blocks_.image_elements(c)),
        line_(results_ + blocks_.result_elements(c)),
        lines_(line_ + blocks_.line_elements()) {}

  void run() {
    for (int64_t channel = 0; channel < c_.in_channels; ++channel) transform_image(channel);
    multiply();
    for (int64_t channel = 0; channel < c_.out_channels; ++channel) transform_results(channel);
  }

 private:
  // Row h of a plane of the image, transformed along itself: line[j] has a number for each tile.
  void transform_line(const float* plane, int64_t h, float* line) const {
    const int64_t pitch = blocks_.pitch;
    if (h < 0 || h >= c_.in_height) {
      std::fill_n(line, 4 * pitch, 0.0f);
      return;
    }
    const int64_t first = 2 * first_column_ - c_.padding_left, count = 2 * columns_ + 2;
    const int64_t before = std::clamp<int64_t>(-first, 0, count);
    const int64_t inside = std::clamp<int64_t>(c_.in_width - first - before, 0, count - before);
    std::fill_n(line_, before, 0.0f);
    std::copy_n(plane + h * c_.in_width + first + before, inside, line_ + before);
    std::fill_n(line_ + before + inside, count - before - inside, 0.0f);
    for (int64_t t = 0; t < columns_; t += kWidth) {
      const auto [d0, d1] = split(load(line_ + 2 * t), load(line_ + 2 * t + kWidth));
      const auto [d2, d3] = split(load(line_ + 2 * t + 2), load(line_ + 2 * t + 2 + kWidth));
      store(line + t, d0 - d2);
      store(line + pitch + t, d1 + d2);
      store(line + 2 * pitch + t, d2 - d1);
      store(line + 3 * pitch + t, d1 - d3);
    }
  }

  // V = B^T d B
  void transform_image(int64_t channel) {
    const int64_t down = c_.tiles_down(), pitch = blocks_.pitch, line_size = 4 * pitch;
    float* lines[4] = {lines_, lines_ + line_size, lines_ + 2 * line_size, lines_ + 3 * line_size};
    for (int64_t row = 0; row < rows_; ++row) {
      const int64_t image = (first_row_ + row) / down, tile = (first_row_ + row) % down;
      const float* const plane = c_.x + (image * c_.in_channels + channel) * c_.in_height * c_.in_width;
      const int64_t h = 2 * tile - c_.padding_top;
      const bool follows = row > 0 && tile > 0;  // two lines are those of the row before
      if (follows) {
        std::swap(lines[0], lines[2]);
        std::swap(lines[1], lines[3]);
      }
      for (int64_t i = follows ? 2 : 0; i < 4; ++i) transform_line(plane, h + i, lines[i]);
      for (int64_t j = 0; j < 4; ++j) {
        float* const to = image_at(j, channel) + row * columns_;
        const int64_t next = 4 * c_.in_channels * blocks_.stride;  // number 4 + j
        for (int64_t t = 0; t < columns_; t += kWidth) {
          const F32 d0 = load(lines[0] + j * pitch + t), d1 = load(lines[1] + j * pitch + t);
          const F32 d2 = load(lines[2] + j * pitch + t), d3 = load(lines[3] + j * pitch + t);
          store(to + t, d0 - d2);  // what is beyond the row's end is written again by the next row
          store(to + next + t, d1 + d2);
          store(to + 2 * next + t, d2 - d1);
          store(to + 3 * next + t, d1 - d3);
        }
      }
    }
    const int64_t tiles = rows_ * columns_, beyond = whole(tiles, kWidth) - tiles;
    for (int64_t i = 0; i < kNumbers; ++i) std::fill_n(image_at(i, channel) + tiles, beyond, 0.0f);
  }

  // Sums over channels are added up in blocks.
  void multiply() const {
    const int64_t tiles = rows_ * columns_, panels = panels_of(c_), panel_elements = c_.in_channels * kPanelRows;
    for (int64_t i = 0; i < kNumbers; ++i) {
      const float* const weights = weights_ + i * panels * panel_elements;
      for (int64_t in = 0; in < c_.in_channels; in += kBlockChannels) {
        const int64_t depth = std::min(kBlockChannels, c_.in_channels - in);
        const auto& kinds =
            in == 0 ? kPanelFunctions<Whole<float>, /*kAdd=*/false> : kPanelFunctions<Whole<float>, /*kAdd=*/true>;
        for (int64_t tile = 0; tile < tiles; tile += kColumns) {
          const auto& functions = kinds[tiles - tile > kLanes<float> ? 1 : 0];
          for (int64_t panel = 0; panel < panels; ++panel) {
            const int64_t first = panel * kPanelRows, count = std::min<int64_t>(kPanelRows, c_.out_channels - first);
            functions[static_cast<size_t>(count - 1)](weights + panel * panel_elements + in * kPanelRows,
                                                      image_at(i, in) + tile, blocks_.stride, depth,
                                                      results_at(i, first) + tile, blocks_.stride);
          }
        }
      }
    }
  }

  // Y = A^T m A
  void transform_results(int64_t channel) const {
    const int64_t down = c_.tiles_down();
    const F32 bias = splat(c_.bias == nullptr ? 0.0f : c_.bias[channel]);
    const int64_t next = c_.out_channels * blocks_.stride;
    for (int64_t row = 0; row < rows_; ++row) {
      const int64_t image = (first_row_ + row) / down, h = (first_row_ + row) % down * 2;
      const float* const m = results_at(0, channel) + row * columns_;
      float* const lower = line_ + blocks_.line_elements() / 2;
      for (int64_t t = 0; t < columns_; t += kWidth) {
        F32 upper_sums[4], lower_sums[4];
        for (int64_t j = 0; j < 4; ++j) {
          const F32 m0 = load(m + j * next + t), m1 = load(m + (4 + j) * next + t);
          const F32 m2 = load(m + (8 + j) * next + t), m3 = load(m + (12 + j) * next + t);
          upper_sums[j] = m0 + m1 + m2;
          lower_sums[j] = m1 - m2 - m3;
        }
        store_pair(line_ + 2 * t, upper_sums, bias);
        store_pair(lower + 2 * t, lower_sums, bias);
      }
      float* const to =
          c_.out + ((image * c_.out_channels + channel) * c_.out_height + h) * c_.out_width + 2 * first_column_;
      const int64_t count = std::min(2 * columns_, c_.out_width - 2 * first_column_);
      std::copy_n(line_, count, to);
      if (h + 1 < c_.out_height) std::copy_n(lower, count, to + c_.out_width);
    }
  }

  // The two results of each tile in a row, side by side.
  static void store_pair(float* to, const F32 (&sums)[4], F32 bias) {
    const auto [first, second] = joined(sums[0] + sums[1] + sums[2] + bias, sums[1] - sums[2] - sums[3] + bias);
    store(to, first);
    store(to + kWidth, second);
  }

  float* image_at(int64_t number, int64_t channel) const {
    return image_ + (number * c_.in_channels + channel) * blocks_.stride;
  }
  float* results_at(int64_t number, int64_t channel) const {
    return results_ + (number * c_.out_channels + channel) * blocks_.stride;
  }

  const WinogradConvolution& c_;
  const Blocks blocks_;
  const int64_t first_row_, rows_, first_column_, columns_;  // of tiles; rows are counted over all images
  const float* const weights_;
  float *const image_, *const results_, *const line_, *const lines_;
};

int64_t tasks(const WinogradConvolution& c) {
  const Blocks blocks(c);
  return blocks.down * blocks.across;
}

uint64_t task_bytes(const WinogradConvolution& c) {
  const Blocks blocks(c);
  const int64_t lines = 4 * 4 * blocks.pitch;
  return static_cast<uint64_t>(blocks.image_elements(c) + blocks.result_elements(c) + blocks.line_elements() + lines) *
         sizeof(float);
}

void run(const WinogradConvolution& c, int64_t task, const void* transformed, void* memory) {
  Task(c, task, transformed, memory).run();
}

}  // namespace

const WinogradLoops winograd_loops = {weight_bytes, panels_of, transform_weights, tasks, task_bytes, run};

}  // namespace mydev::kernels::MYDEV_ISA
