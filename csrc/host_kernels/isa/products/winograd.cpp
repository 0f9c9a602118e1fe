// The loops of winograd.h for one instruction set.
//
// A task computes some rows of tiles, or parts of them, for all channels. Vectors hold one number of as many tiles,
// side by side. The transformed image is [16][in_channels][tiles], and the results before their transformation are
// [16][out_channels][tiles], in the task's memory, which is sized for the second-level cache.
#include "host_kernels/winograd.h"

#include <algorithm>
#include <cstring>

#include "host_kernels/isa/products/packed_product.h"
#include "host_kernels/isa/products/winograd_image.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int64_t kColumns = kPanelColumns<float>, kBlockChannels = 128;
constexpr int64_t kTaskBytes = 1 << 20, kFewTiles = 96, kManyTiles = 128;

Blocks blocks_of(const WinogradConvolution& c) {
  const int64_t tile_bytes = kNumbers * int64_t{sizeof(float)} * (c.in_channels + c.out_channels);
  return Blocks(c, std::clamp(kTaskBytes / tile_bytes, kFewTiles, kManyTiles));
}

// a[0], b[0], a[1], b[1], ...
Vectors joined(F32 a, F32 b) {
  return [&]<int... i>(std::integer_sequence<int, i...>) {
    return Vectors{__builtin_shufflevector(a, b, (i % 2 * kWidth + i / 2)...),
                   __builtin_shufflevector(a, b, (i % 2 * kWidth + i / 2 + kWidth / 2)...)};
  }(std::make_integer_sequence<int, kWidth>());
}

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
        tiles_(c, blocks_of(c), task),
        weights_(static_cast<const float*>(weights)),
        results_(static_cast<float*>(memory) + blocks_.image_elements(c)),
        line_(results_ + blocks_.result_elements(c)),
        image_(c, tiles_, static_cast<float*>(memory), line_, line_ + blocks_.line_elements()) {}

  void run() {
    for (int64_t channel = 0; channel < c_.in_channels; ++channel) image_.transform(channel);
    multiply();
    for (int64_t channel = 0; channel < c_.out_channels; ++channel) transform_results(channel);
  }

 private:
  // Sums over channels are added up in blocks.
  void multiply() const {
    const int64_t tiles = tiles_.count(), panels = panels_of(c_), panel_elements = c_.in_channels * kPanelRows;
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
                                                      image_.at(i, in) + tile, blocks_.stride, depth,
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
    for (int64_t row = 0; row < tiles_.rows; ++row) {
      const int64_t image = (tiles_.first_row + row) / down, h = (tiles_.first_row + row) % down * 2;
      const float* const m = results_at(0, channel) + row * tiles_.columns;
      float* const lower = line_ + blocks_.line_elements() / 2;
      for (int64_t t = 0; t < tiles_.columns; t += kWidth) {
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
          c_.out + ((image * c_.out_channels + channel) * c_.out_height + h) * c_.out_width + 2 * tiles_.first_column;
      const int64_t count = std::min(2 * tiles_.columns, c_.out_width - 2 * tiles_.first_column);
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

  float* results_at(int64_t number, int64_t channel) const {
    return results_ + (number * c_.out_channels + channel) * blocks_.stride;
  }

  const WinogradConvolution& c_;
  const TaskTiles tiles_;
  const Blocks& blocks_ = tiles_.blocks;
  const float* const weights_;
  float *const results_, *const line_;
  TransformedImage image_;
};

int64_t tasks(const WinogradConvolution& c) {
  const Blocks blocks = blocks_of(c);
  return blocks.down * blocks.across;
}

uint64_t task_bytes(const WinogradConvolution& c) {
  const Blocks blocks = blocks_of(c);
  return static_cast<uint64_t>(blocks.image_elements(c) + blocks.result_elements(c) + blocks.line_elements() +
                               TransformedImage::lines_elements(blocks)) *
         sizeof(float);
}

void run(const WinogradConvolution& c, int64_t task, const void* transformed, void* memory) {
  Task(c, task, transformed, memory).run();
}

}  // namespace

const WinogradLoops winograd_loops = {weight_bytes, panels_of, transform_weights, tasks, task_bytes, run};

}  // namespace mydev::kernels::MYDEV_ISA
