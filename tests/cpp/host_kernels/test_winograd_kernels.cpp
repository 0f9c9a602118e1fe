// Winograd's convolutions and their gradients of weights against sums of taps, in each instruction set.
#include "host_kernels/winograd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "for_each_index.h"
#include "host_kernels/isa_variant.h"

namespace mydev::kernels {
namespace {

class WinogradVariants : public testing::TestWithParam<InstructionSet> {
 protected:
  struct Geometry {
    int64_t images, in_channels, out_channels, height, width, padding_top, padding_left;
    bool with_bias = true;
  };

  struct alignas(64) Line {
    float values[16];
    Line() { std::fill_n(values, 16, std::nanf("")); }
  };

  static WinogradConvolution geometry_of(const Geometry& g) {
    WinogradConvolution convolution{};
    convolution.images = g.images;
    convolution.in_channels = g.in_channels;
    convolution.out_channels = g.out_channels;
    convolution.in_height = g.height;
    convolution.in_width = g.width;
    convolution.out_height = g.height + 2 * g.padding_top - 2;
    convolution.out_width = g.width + 2 * g.padding_left - 2;
    convolution.padding_top = g.padding_top;
    convolution.padding_left = g.padding_left;
    return convolution;
  }

  // Small whole numbers: all sums are exact.
  static std::vector<float> numbers(int64_t count, uint32_t seed) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) {
      seed = seed * 1664525u + 1013904223u;
      value = static_cast<float>(static_cast<int32_t>(seed >> 16) % 9 - 4);
    }
    return values;
  }

  void check(const Geometry& g, bool turned) {
    SCOPED_TRACE(testing::PrintToString(Sizes{g.images, g.in_channels, g.out_channels, g.height, g.width, turned}));
    const int64_t out_height = g.height + 2 * g.padding_top - 2, out_width = g.width + 2 * g.padding_left - 2;
    const std::vector<float> x = numbers(g.images * g.in_channels * g.height * g.width, 1);
    const std::vector<float> weights = numbers(g.out_channels * g.in_channels * 9, 2),
                             bias = numbers(g.out_channels, 3);
    std::vector<float> out(static_cast<size_t>(g.images * g.out_channels * out_height * out_width), -1000);
    WinogradConvolution convolution = geometry_of(g);
    convolution.x = x.data();
    convolution.weights = weights.data() + (turned ? 8 : 0);
    convolution.weight_out = turned ? 9 : g.in_channels * 9;
    convolution.weight_in = turned ? g.out_channels * 9 : 9;
    convolution.weight_row = turned ? -3 : 3;
    convolution.weight_column = turned ? -1 : 1;
    convolution.bias = g.with_bias ? bias.data() : nullptr;
    convolution.out = out.data();
    const WinogradLoops& loops = MYDEV_ISA_VARIANT(GetParam(), winograd_loops);
    std::vector<Line> transformed(loops.weight_bytes(convolution) / sizeof(Line) + 1);
    std::vector<Line> memory(loops.task_bytes(convolution) / sizeof(Line) + 1);
    for (int64_t part = 0; part < loops.weight_parts(convolution); ++part) {
      loops.transform_weights(convolution, part, transformed.data());
    }
    for (int64_t task = loops.tasks(convolution); task-- > 0;) {
      std::fill(memory.begin(), memory.end(), Line{});  // which are NaN: nothing of it may be read
      loops.run(convolution, task, transformed.data(), memory.data());
    }
    const float* result = out.data();
    for_each_index({g.images, g.out_channels, out_height, out_width}, [&](const Sizes& at) {
      float sum = g.with_bias ? bias[static_cast<size_t>(at[1])] : 0;
      for_each_index({g.in_channels, 3, 3}, [&](const Sizes& k) {
        const int64_t h = at[2] + k[1] - g.padding_top, w = at[3] + k[2] - g.padding_left;
        if (h < 0 || h >= g.height || w < 0 || w >= g.width) return;
        const float* const weight = convolution.weights + at[1] * convolution.weight_out +
                                    k[0] * convolution.weight_in + k[1] * convolution.weight_row +
                                    k[2] * convolution.weight_column;
        sum += *weight * x[static_cast<size_t>(((at[0] * g.in_channels + k[0]) * g.height + h) * g.width + w)];
      });
      ASSERT_EQ(*result++, sum) << testing::PrintToString(at);
    });
  }
};

// The gradients of weights and bias, in as many pieces as given.
class WinogradGradientVariants : public WinogradVariants {
 protected:
  void check(const Geometry& g, int64_t pieces) {
    SCOPED_TRACE(testing::PrintToString(Sizes{g.images, g.in_channels, g.out_channels, g.height, g.width, pieces}));
    const int64_t out_height = g.height + 2 * g.padding_top - 2, out_width = g.width + 2 * g.padding_left - 2;
    const std::vector<float> x = numbers(g.images * g.in_channels * g.height * g.width, 1);
    std::vector<float> out = numbers(g.images * g.out_channels * out_height * out_width, 2);
    std::vector<float> grad_weight(static_cast<size_t>(g.out_channels * g.in_channels * 9), -1000);
    std::vector<float> grad_bias(static_cast<size_t>(g.out_channels), -1000);
    WinogradConvolution convolution = geometry_of(g);
    convolution.x = x.data();
    convolution.out = out.data();
    const WinogradGradient gradient{.convolution = convolution,
                                    .grad_weight = grad_weight.data(),
                                    .grad_bias = g.with_bias ? grad_bias.data() : nullptr,
                                    .task_tiles = 100};
    const WinogradGradientLoops& loops = MYDEV_ISA_VARIANT(GetParam(), winograd_gradient_loops);
    const uint64_t bytes = loops.piece_bytes(gradient);
    ASSERT_EQ(bytes % sizeof(Line), 0U);
    std::vector<Line> memory(static_cast<size_t>(pieces) * bytes / sizeof(Line));  // NaN: nothing of it may be read
    const int64_t tasks = loops.tasks(gradient);
    ASSERT_LE(pieces, tasks);
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const int64_t first = tasks * piece / pieces;
      for (int64_t task = first; task < tasks * (piece + 1) / pieces; ++task) {
        loops.run(gradient, task, task == first, memory.data() + static_cast<uint64_t>(piece) * bytes / sizeof(Line));
      }
    }
    const int64_t half = g.out_channels / 2;
    loops.finish(gradient, pieces, half, g.out_channels, memory.data());
    loops.finish(gradient, pieces, 0, half, memory.data());
    const auto out_at = [&](int64_t image, int64_t channel, int64_t h, int64_t w) {
      return out[static_cast<size_t>(((image * g.out_channels + channel) * out_height + h) * out_width + w)];
    };
    const float* result = grad_weight.data();
    for_each_index({g.out_channels, g.in_channels, 3, 3}, [&](const Sizes& at) {
      float sum = 0;
      for_each_index({g.images, out_height, out_width}, [&](const Sizes& place) {
        const int64_t h = place[1] + at[2] - g.padding_top, w = place[2] + at[3] - g.padding_left;
        if (h < 0 || h >= g.height || w < 0 || w >= g.width) return;
        sum += out_at(place[0], at[0], place[1], place[2]) *
               x[static_cast<size_t>(((place[0] * g.in_channels + at[1]) * g.height + h) * g.width + w)];
      });
      ASSERT_EQ(*result++, sum) << testing::PrintToString(at);
    });
    for (int64_t channel = 0; g.with_bias && channel < g.out_channels; ++channel) {
      float sum = 0;
      for_each_index({g.images, out_height, out_width},
                     [&](const Sizes& place) { sum += out_at(place[0], channel, place[1], place[2]); });
      ASSERT_EQ(grad_bias[static_cast<size_t>(channel)], sum) << channel;
    }
  }
};

TEST_P(WinogradGradientVariants, SumAsTheTapsDo) {
  check({1, 1, 1, 3, 3, 0, 0}, 1);           // one result
  check({3, 5, 7, 6, 9, 1, 1}, 1);           // odd sizes; tasks that hold several images
  check({40, 3, 19, 11, 36, 0, 2}, 3);       // several pieces
  check({2, 37, 70, 12, 13, 1, 1}, 1);       // panels that are not full
  check({1, 2, 3, 5, 300, 2, 1, false}, 2);  // rows in several tasks
}

TEST_P(WinogradVariants, ConvolveAsTheTapsDo) {
  for (const bool turned : {false, true}) {
    check({1, 1, 1, 3, 3, 0, 0}, turned);           // one result
    check({3, 5, 7, 6, 9, 1, 1}, turned);           // odd sizes; tasks that hold several images
    check({2, 3, 19, 11, 36, 0, 2}, turned);        // panels that are not full
    check({1, 2, 3, 5, 300, 2, 1, false}, turned);  // rows in several tasks
    check({2, 70, 9, 40, 14, 1, 0}, turned);        // several tasks an image
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, WinogradGradientVariants, testing::ValuesIn(supported_instruction_sets()),
                         [](const auto& info) { return std::string(instruction_set_name(info.param)); });
INSTANTIATE_TEST_SUITE_P(InstructionSets, WinogradVariants, testing::ValuesIn(supported_instruction_sets()),
                         [](const auto& info) { return std::string(instruction_set_name(info.param)); });

}  // namespace
}  // namespace mydev::kernels
