// The pooling kernels against reference loops: both dense orders and strided operands, f32, f64 and half types,
// padding, dilation, NaN, and every variant of the inner loops.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "conform/kernels/planned_launch.h"
#include "host_kernels/isa_variant.h"
#include "host_kernels/pooling_loops.h"
#include "kernels/registry/kernel_registry.h"
#include "runtime/command/launch.h"
#include "runtime/driver/host_services.h"
#include "runtime/frame/frame.h"

namespace mydev::kernels {
namespace {

enum class Order { kChannelsFirst, kChannelsLast, kStepped };

template <typename T>
class Tensor {
 public:
  Tensor(std::vector<int64_t> sizes, Order order, mydev_dtype dtype, uint32_t seed)
      : sizes_(std::move(sizes)), dtype_(dtype) {
    const int64_t c = sizes_[1], h = sizes_[2], w = sizes_[3], step = order == Order::kStepped ? 2 : 1;
    strides_ = order == Order::kChannelsLast ? std::vector<int64_t>{h * w * c, 1, w * c, c}
                                             : std::vector<int64_t>{c * h * w * step, h * w * step, w * step, step};
    storage_.resize(static_cast<size_t>(sizes_[0] * c * h * w * step));
    for (T& value : storage_) {
      seed = seed * 1664525u + 1013904223u;
      value = static_cast<T>(static_cast<int32_t>(seed >> 16) % 97 - 48);
    }
  }
  T& at(int64_t n, int64_t c, int64_t h, int64_t w) {
    return storage_[static_cast<size_t>(n * strides_[0] + c * strides_[1] + h * strides_[2] + w * strides_[3])];
  }
  mydev_buffer buffer() { return {storage_.data(), sizes_.data(), strides_.data(), 4, dtype_}; }

 private:
  std::vector<int64_t> sizes_, strides_;
  std::vector<T> storage_;
  mydev_dtype dtype_;
};

mydev_code run_kernel(const char* name, const std::vector<mydev_buffer>& buffers, uint32_t outputs,
                      const std::vector<mydev_attribute>& attributes) {
  const mydev_kernel* kernel = find_kernel(name);
  mydev_frame frame = make_frame(buffers, outputs, attributes);
  return run_record(*kernel, frame);
}

struct Case {
  const char* name;
  int64_t n, c, h, w, out_h, out_w;
  std::vector<int64_t> kernel, stride, padding, dilation;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

const Case kCases[] = {
    {"halves", 2, 3, 8, 8, 4, 4, {2, 2}, {2, 2}, {0, 0}, {1, 1}},
    {"overlapping", 2, 70, 11, 13, 6, 7, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {"dilated", 1, 2, 12, 14, 4, 5, {3, 3}, {2, 2}, {0, 1}, {2, 3}},
    {"uneven", 1, 5, 9, 10, 3, 2, {3, 4}, {3, 5}, {0, 1}, {1, 1}},
    {"dense", 1, 2, 7, 9, 6, 8, {2, 2}, {1, 1}, {0, 0}, {1, 1}},
    {"wide", 1, 1, 3, 1100, 2, 549, {2, 4}, {1, 2}, {0, 0}, {1, 1}},
    {"long", 1, 1, 3, 60, 3, 21, {1, 20}, {1, 3}, {0, 10}, {1, 1}},
    {"huge", 1, 1, 2, 2200, 2, 101, {1, 2100}, {1, 1}, {0, 0}, {1, 1}},
    {"widehalves", 1, 2, 4, 1100, 2, 550, {2, 2}, {2, 2}, {0, 0}, {1, 1}},
    {"ceiled", 1, 3, 6, 6, 3, 3, {3, 3}, {2, 2}, {0, 0}, {1, 1}},
};

using Parameter = std::tuple<Case, Order>;

std::vector<mydev_attribute> max_attributes(const Case& c) {
  return {int_array_attribute("kernel", c.kernel), int_array_attribute("stride", c.stride),
          int_array_attribute("padding", c.padding), int_array_attribute("dilation", c.dilation)};
}

// Calls body(n, c, oh, ow) for each result.
template <typename Body>
void for_each_result(const Case& c, const Body& body) {
  for (int64_t n = 0; n < c.n; ++n) {
    for (int64_t channel = 0; channel < c.c; ++channel) {
      for (int64_t oh = 0; oh < c.out_h; ++oh) {
        for (int64_t ow = 0; ow < c.out_w; ++ow) body(n, channel, oh, ow);
      }
    }
  }
}

// Calls body(h, w) for each input of a result that lies inside.
template <typename Body>
void for_each_tap(const Case& c, int64_t oh, int64_t ow, const Body& body) {
  for (int64_t i = 0; i < c.kernel[0]; ++i) {
    for (int64_t j = 0; j < c.kernel[1]; ++j) {
      const int64_t h = oh * c.stride[0] - c.padding[0] + i * c.dilation[0];
      const int64_t w = ow * c.stride[1] - c.padding[1] + j * c.dilation[1];
      if (h >= 0 && h < c.h && w >= 0 && w < c.w) body(h, w);
    }
  }
}

template <typename T>
void check_max(const Case& c, Order order, mydev_dtype dtype) {
  Tensor<T> x({c.n, c.c, c.h, c.w}, order, dtype, 1), out({c.n, c.c, c.out_h, c.out_w}, order, dtype, 2);
  Tensor<int64_t> indices({c.n, c.c, c.out_h, c.out_w}, order, MYDEV_S64, 3);
  ASSERT_EQ(run_kernel("mydev.max_pool2d", {out.buffer(), indices.buffer(), x.buffer()}, 2, max_attributes(c)),
            MYDEV_OK);
  for_each_result(c, [&](int64_t n, int64_t channel, int64_t oh, int64_t ow) {
    T best = -std::numeric_limits<T>::infinity();
    int64_t index = -1;
    for_each_tap(c, oh, ow, [&](int64_t h, int64_t w) {
      if (x.at(n, channel, h, w) > best) {
        best = x.at(n, channel, h, w);
        index = h * c.w + w;
      }
    });
    ASSERT_EQ(out.at(n, channel, oh, ow), best) << n << " " << channel << " " << oh << " " << ow;
    ASSERT_EQ(indices.at(n, channel, oh, ow), index) << n << " " << channel << " " << oh << " " << ow;
  });
}

class Pooling : public testing::TestWithParam<Parameter> {};

TEST_P(Pooling, MaxAgreesWithPlainLoops) {
  check_max<float>(std::get<0>(GetParam()), std::get<1>(GetParam()), MYDEV_F32);
}

TEST_P(Pooling, MaxAgreesInDouble) {
  check_max<double>(std::get<0>(GetParam()), std::get<1>(GetParam()), MYDEV_F64);
}

TEST_P(Pooling, MaxGradientGoesToTheMaximum) {
  const auto& [c, order] = GetParam();
  Tensor<float> x({c.n, c.c, c.h, c.w}, order, MYDEV_F32, 1), grad_x({c.n, c.c, c.h, c.w}, order, MYDEV_F32, 4),
      expected(grad_x);
  Tensor<float> out({c.n, c.c, c.out_h, c.out_w}, order, MYDEV_F32, 2),
      grad_out({c.n, c.c, c.out_h, c.out_w}, order, MYDEV_F32, 5);
  Tensor<int64_t> indices({c.n, c.c, c.out_h, c.out_w}, order, MYDEV_S64, 3);
  ASSERT_EQ(run_kernel("mydev.max_pool2d", {out.buffer(), indices.buffer(), x.buffer()}, 2, max_attributes(c)),
            MYDEV_OK);
  ASSERT_EQ(run_kernel("mydev.max_pool2d_backward", {grad_x.buffer(), grad_out.buffer(), indices.buffer()}, 1, {}),
            MYDEV_OK);
  for (int64_t n = 0; n < c.n; ++n) {
    for (int64_t channel = 0; channel < c.c; ++channel) {
      for (int64_t i = 0; i < c.h * c.w; ++i) expected.at(n, channel, i / c.w, i % c.w) = 0;
    }
  }
  for_each_result(c, [&](int64_t n, int64_t channel, int64_t oh, int64_t ow) {
    const int64_t index = indices.at(n, channel, oh, ow);
    expected.at(n, channel, index / c.w, index % c.w) += grad_out.at(n, channel, oh, ow);
  });
  for (int64_t n = 0; n < c.n; ++n) {
    for (int64_t channel = 0; channel < c.c; ++channel) {
      for (int64_t i = 0; i < c.h * c.w; ++i) {
        ASSERT_FLOAT_EQ(grad_x.at(n, channel, i / c.w, i % c.w), expected.at(n, channel, i / c.w, i % c.w));
      }
    }
  }
}

struct Averaging {
  bool count_include_pad;
  int64_t divisor;
};

void check_average(Case c, Order order, Averaging averaging) {
  c.dilation = {1, 1};
  Tensor<float> x({c.n, c.c, c.h, c.w}, order, MYDEV_F32, 1), out({c.n, c.c, c.out_h, c.out_w}, order, MYDEV_F32, 2);
  Tensor<float> grad_x({c.n, c.c, c.h, c.w}, order, MYDEV_F32, 4), expected(grad_x);
  Tensor<float> grad_out({c.n, c.c, c.out_h, c.out_w}, order, MYDEV_F32, 5);
  const std::vector<mydev_attribute> attributes = {
      int_array_attribute("kernel", c.kernel), int_array_attribute("stride", c.stride),
      int_array_attribute("padding", c.padding), bool_attribute("count_include_pad", averaging.count_include_pad),
      int_attribute("divisor", averaging.divisor)};
  ASSERT_EQ(run_kernel("mydev.avg_pool2d", {out.buffer(), x.buffer()}, 1, attributes), MYDEV_OK);
  ASSERT_EQ(run_kernel("mydev.avg_pool2d_backward", {grad_x.buffer(), grad_out.buffer()}, 1, attributes), MYDEV_OK);
  for (int64_t n = 0; n < c.n; ++n) {
    for (int64_t channel = 0; channel < c.c; ++channel) {
      for (int64_t i = 0; i < c.h * c.w; ++i) expected.at(n, channel, i / c.w, i % c.w) = 0;
    }
  }
  for_each_result(c, [&](int64_t n, int64_t channel, int64_t oh, int64_t ow) {
    double sum = 0, taps = 0;
    for_each_tap(c, oh, ow, [&](int64_t h, int64_t w) {
      sum += x.at(n, channel, h, w);
      taps += 1;
    });
    const auto padded = [&](int axis, int64_t o, int64_t in) {
      const size_t a = static_cast<size_t>(axis);
      const int64_t start = o * c.stride[a] - c.padding[a];
      return std::min(start + c.kernel[a], in + c.padding[a]) - start;
    };
    double divisor = averaging.count_include_pad ? static_cast<double>(padded(0, oh, c.h) * padded(1, ow, c.w)) : taps;
    if (averaging.divisor != 0) divisor = static_cast<double>(averaging.divisor);
    ASSERT_NEAR(out.at(n, channel, oh, ow), sum / divisor, 1e-4) << n << " " << channel << " " << oh << " " << ow;
    for_each_tap(c, oh, ow, [&](int64_t h, int64_t w) {
      expected.at(n, channel, h, w) += grad_out.at(n, channel, oh, ow) / static_cast<float>(divisor);
    });
  });
  for (int64_t n = 0; n < c.n; ++n) {
    for (int64_t channel = 0; channel < c.c; ++channel) {
      for (int64_t i = 0; i < c.h * c.w; ++i) {
        ASSERT_NEAR(grad_x.at(n, channel, i / c.w, i % c.w), expected.at(n, channel, i / c.w, i % c.w), 1e-4);
      }
    }
  }
}

TEST_P(Pooling, AverageWithPaddingAgreesWithPlainLoops) {
  check_average(std::get<0>(GetParam()), std::get<1>(GetParam()), {true, 0});
}

TEST_P(Pooling, AverageWithoutPaddingAgreesWithPlainLoops) {
  check_average(std::get<0>(GetParam()), std::get<1>(GetParam()), {false, 0});
}

TEST_P(Pooling, AverageTakesAnotherDivisor) {
  check_average(std::get<0>(GetParam()), std::get<1>(GetParam()), {true, 7});
}

TEST_P(Pooling, AdaptiveAverageSplitsTheInputEvenly) {
  const auto& [c, order] = GetParam();
  Tensor<float> x({c.n, c.c, c.h, c.w}, order, MYDEV_F32, 1), out({c.n, c.c, c.out_h, c.out_w}, order, MYDEV_F32, 2);
  ASSERT_EQ(run_kernel("mydev.adaptive_avg_pool2d", {out.buffer(), x.buffer()}, 1, {}), MYDEV_OK);
  for_each_result(c, [&, &c = c](int64_t n, int64_t channel, int64_t oh, int64_t ow) {
    double sum = 0;
    int64_t count = 0;
    for (int64_t h = oh * c.h / c.out_h; h * c.out_h < (oh + 1) * c.h; ++h) {
      for (int64_t w = ow * c.w / c.out_w; w * c.out_w < (ow + 1) * c.w; ++w) {
        sum += x.at(n, channel, h, w);
        ++count;
      }
    }
    ASSERT_NEAR(out.at(n, channel, oh, ow), sum / static_cast<double>(count), 1e-5);
  });
}

TEST_P(Pooling, AdaptiveGradientSumsToTheGivenOne) {
  const auto& [c, order] = GetParam();
  Tensor<float> grad_x({c.n, c.c, c.h, c.w}, order, MYDEV_F32, 1),
      grad_out({c.n, c.c, c.out_h, c.out_w}, order, MYDEV_F32, 2);
  ASSERT_EQ(run_kernel("mydev.adaptive_avg_pool2d_backward", {grad_x.buffer(), grad_out.buffer()}, 1, {}), MYDEV_OK);
  for (int64_t n = 0; n < c.n; ++n) {
    for (int64_t channel = 0; channel < c.c; ++channel) {
      double given = 0, got = 0;
      for (int64_t i = 0; i < c.out_h * c.out_w; ++i) given += grad_out.at(n, channel, i / c.out_w, i % c.out_w);
      for (int64_t i = 0; i < c.h * c.w; ++i) got += grad_x.at(n, channel, i / c.w, i % c.w);
      ASSERT_NEAR(got, given, 1e-2);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Pooling,
                         testing::Combine(testing::ValuesIn(kCases),
                                          testing::Values(Order::kChannelsFirst, Order::kChannelsLast,
                                                          Order::kStepped)),
                         [](const auto& info) {
                           const Order order = std::get<1>(info.param);
                           return std::string(std::get<0>(info.param).name) +
                                  (order == Order::kChannelsFirst  ? "ChannelsFirst"
                                   : order == Order::kChannelsLast ? "ChannelsLast"
                                                                   : "Stepped");
                         });

TEST(MaxPooling, LetsNanWinAndPointsAtTheFirstElementOfAnAllInfiniteWindow) {
  const Case c{"", 1, 1, 2, 4, 1, 2, {2, 2}, {2, 2}, {0, 0}, {1, 1}};
  Tensor<float> x({1, 1, 2, 4}, Order::kChannelsFirst, MYDEV_F32, 1),
      out({1, 1, 1, 2}, Order::kChannelsFirst, MYDEV_F32, 2);
  Tensor<int64_t> indices({1, 1, 1, 2}, Order::kChannelsFirst, MYDEV_S64, 3);
  for (int64_t i = 0; i < 8; ++i) x.at(0, 0, i / 4, i % 4) = -std::numeric_limits<float>::infinity();
  x.at(0, 0, 0, 1) = NAN;
  ASSERT_EQ(run_kernel("mydev.max_pool2d", {out.buffer(), indices.buffer(), x.buffer()}, 2, max_attributes(c)),
            MYDEV_OK);
  EXPECT_TRUE(std::isnan(out.at(0, 0, 0, 0)));
  EXPECT_EQ(indices.at(0, 0, 0, 0), 1);
  EXPECT_EQ(out.at(0, 0, 0, 1), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(indices.at(0, 0, 0, 1), 2);
}

TEST(MaxPooling, RefusesIndicesOfAnotherType) {
  const Case c{"", 1, 1, 2, 4, 1, 2, {2, 2}, {2, 2}, {0, 0}, {1, 1}};
  Tensor<float> x({1, 1, 2, 4}, Order::kChannelsFirst, MYDEV_F32, 1),
      out({1, 1, 1, 2}, Order::kChannelsFirst, MYDEV_F32, 2);
  EXPECT_EQ(run_kernel("mydev.max_pool2d", {out.buffer(), out.buffer(), x.buffer()}, 2, max_attributes(c)),
            MYDEV_INVALID_ARGUMENT);
}

class PoolingVariants : public testing::TestWithParam<InstructionSet> {};

TEST_P(PoolingVariants, ComputeTheSameAsTheBaseline) {
  const PoolingGeometry g{2, 1, {9, 5, 3, 2, 1, 1}, {41, 21, 3, 2, 1, 1}, true, 0, false};
  Tensor<float> x({1, 2, 9, 41}, Order::kChannelsFirst, MYDEV_F32, 1);
  Tensor<float> out({1, 2, 5, 21}, Order::kChannelsFirst, MYDEV_F32, 2), expected(out), mean(out), expected_mean(out);
  Tensor<int64_t> indices({1, 2, 5, 21}, Order::kChannelsFirst, MYDEV_S64, 3), expected_indices(indices);
  const auto compute = [&](InstructionSet isa, Tensor<float>& maxima, Tensor<int64_t>& positions,
                           Tensor<float>& means) {
    const MaxPoolingLoops& max_loops = MYDEV_ISA_VARIANT(isa, max_pooling_loops);
    const AveragePoolingLoops& average_loops = MYDEV_ISA_VARIANT(isa, average_pooling_loops);
    max_loops.f32.forward(g, &x.at(0, 0, 0, 0), &maxima.at(0, 0, 0, 0), &positions.at(0, 0, 0, 0), 0, 10);
    average_loops.f32.forward(g, &x.at(0, 0, 0, 0), &means.at(0, 0, 0, 0), 0, 10);
  };
  compute(InstructionSet::kBaseline, expected, expected_indices, expected_mean);
  compute(GetParam(), out, indices, mean);
  for (int64_t i = 0; i < 210; ++i) {
    const int64_t c = i / 105, h = i / 21 % 5, w = i % 21;
    ASSERT_EQ(out.at(0, c, h, w), expected.at(0, c, h, w));
    ASSERT_EQ(indices.at(0, c, h, w), expected_indices.at(0, c, h, w));
    ASSERT_FLOAT_EQ(mean.at(0, c, h, w), expected_mean.at(0, c, h, w));
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, PoolingVariants, testing::ValuesIn(supported_instruction_sets()),
                         [](const auto& info) { return std::string(instruction_set_name(info.param)); });

}  // namespace
}  // namespace mydev::kernels
