// Interpolation against plain loops in double, in each instruction set: one to three dimensions, both dense orders,
// larger and smaller; and that each gradient is the transpose of its interpolation.
#include <algorithm>
#include <array>
#include <cmath>

#include "kernel_fixture.h"

namespace mydev::kernels {
namespace {

struct Case {
  const char* name;
  std::vector<int64_t> in, out;
  int64_t channels;
  bool channels_last, flag;  // exact, or align_corners
};

const Case kCases[] = {
    {"line", {7}, {13}, 3, false, false},
    {"line_exact", {7}, {5}, 3, false, true},
    {"image", {5, 7}, {10, 14}, 3, false, false},
    {"corners", {5, 7}, {9, 4}, 3, false, true},
    {"channels_last", {5, 7}, {8, 3}, 40, true, false},
    {"many_channels", {2, 3}, {3, 4}, 1100, true, true},
    {"volume", {3, 4, 5}, {5, 4, 9}, 2, false, false},
};

// Weights of the elements of one dimension for each position of the other.
std::vector<double> weights_along(int64_t in, int64_t out, double step, bool linear, bool flag) {
  std::vector<double> weights(static_cast<size_t>(in * out));
  for (int64_t i = 0; i < out; ++i) {
    const auto at = static_cast<double>(i);
    double x = linear ? (in == out ? at
                         : flag    ? at * step
                                   : std::max((at + 0.5) * step - 0.5, 0.0))
                      : std::floor((flag ? at + 0.5 : at) * step);
    x = std::min(x, static_cast<double>(in - 1));
    const auto first = static_cast<int64_t>(x);
    weights[static_cast<size_t>(i * in + first)] += 1 - (x - static_cast<double>(first));
    if (first + 1 < in) weights[static_cast<size_t>(i * in + first + 1)] += x - static_cast<double>(first);
  }
  return weights;
}

Operand<float> image(const Case& c, const std::vector<int64_t>& places, uint32_t seed) {
  std::vector<int64_t> sizes = {2, c.channels};
  sizes.insert(sizes.end(), places.begin(), places.end());
  Operand<float> made(sizes, MYDEV_F32);
  if (c.channels_last) {
    int64_t stride = c.channels;
    for (size_t d = sizes.size(); d-- > 2;) {
      made.strides[d] = stride;
      stride *= sizes[d];
    }
    made.strides[0] = stride;
    made.strides[1] = 1;
  }
  return made.fill(seed);
}
// The element at the given place of all places, row by row.
float& element(Operand<float>& o, int64_t n, int64_t c, int64_t place) {
  int64_t at = n * o.strides[0] + c * o.strides[1];
  for (size_t d = o.sizes.size(); d-- > 2;) {
    at += place % o.sizes[d] * o.strides[d];
    place /= o.sizes[d];
  }
  return o.values[static_cast<size_t>(at)];
}
int64_t product(const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

class UpsampleKernels : public KernelTest {
 protected:
  static void check(const Case& c, bool linear) {
    SCOPED_TRACE(c.name);
    std::vector<double> steps, weights = {1};
    for (size_t d = 0; d < c.in.size(); ++d) {
      const bool corners = linear && c.flag;
      const float step = corners ? static_cast<float>(c.in[d] - 1) / static_cast<float>(c.out[d] - 1)
                                 : static_cast<float>(c.in[d]) / static_cast<float>(c.out[d]);
      steps.push_back(static_cast<double>(step));
      const std::vector<double> along = weights_along(c.in[d], c.out[d], steps.back(), linear, c.flag);
      // weights[out places][in places], of the dimensions so far
      std::vector<double> wider;
      const auto columns =
          static_cast<int64_t>(weights.size()) / product({c.out.begin(), c.out.begin() + static_cast<int64_t>(d)});
      for (size_t row = 0; row < weights.size(); row += static_cast<size_t>(columns)) {
        for (int64_t i = 0; i < c.out[d]; ++i) {
          for (int64_t column = 0; column < columns; ++column) {
            for (int64_t j = 0; j < c.in[d]; ++j) {
              wider.push_back(weights[row + static_cast<size_t>(column)] * along[static_cast<size_t>(i * c.in[d] + j)]);
            }
          }
        }
      }
      weights = std::move(wider);
    }
    const std::string kernel = linear ? "mydev.upsample_linear" : "mydev.upsample_nearest";
    mydev_attribute step{"step", MYDEV_ATTRIBUTE_FLOAT_ARRAY, 0, static_cast<uint32_t>(steps.size()), {}};
    step.value.floats = steps.data();
    const std::vector<mydev_attribute> attributes = {step, bool_attribute("flag", c.flag)};
    Operand<float> in = image(c, c.in, 1), out = image(c, c.out, 2), grad_out = image(c, c.out, 3),
                   grad_in = image(c, c.in, 4);
    ASSERT_EQ(run(kernel, {out.buffer(), in.buffer()}, 1, attributes), MYDEV_OK);
    ASSERT_EQ(run(kernel + "_backward", {grad_in.buffer(), grad_out.buffer()}, 1, attributes), MYDEV_OK);
    const int64_t fine = product(c.out), coarse = product(c.in);
    for (int64_t plane = 0; plane < 2 * c.channels; ++plane) {
      const int64_t n = plane / c.channels, channel = plane % c.channels;
      std::vector<double> gradient(static_cast<size_t>(coarse));
      for (int64_t i = 0; i < fine; ++i) {
        double expected = 0;
        for (int64_t j = 0; j < coarse; ++j) {
          const double weight = weights[static_cast<size_t>(i * coarse + j)];
          expected += weight * element(in, n, channel, j);
          gradient[static_cast<size_t>(j)] += weight * element(grad_out, n, channel, i);
        }
        ASSERT_NEAR(element(out, n, channel, i), expected, 1e-5);
      }
      for (int64_t j = 0; j < coarse; ++j) {
        ASSERT_NEAR(element(grad_in, n, channel, j), gradient[static_cast<size_t>(j)], 1e-4);
      }
    }
  }
};

TEST_P(UpsampleKernels, InterpolateByTheNearestElement) {
  for (const Case& c : kCases) check(c, false);
}
TEST_P(UpsampleKernels, InterpolateLinearly) {
  for (const Case& c : kCases) check(c, true);
}
TEST_P(UpsampleKernels, RefuseStepsOfOtherDimensions) {
  Operand<float> in({1, 1, 2}, MYDEV_F32), out({1, 1, 4}, MYDEV_F32);
  const std::array<double, 2> steps = {0.5, 0.5};
  mydev_attribute step{"step", MYDEV_ATTRIBUTE_FLOAT_ARRAY, 0, 2, {}};
  step.value.floats = steps.data();
  EXPECT_EQ(run("mydev.upsample_nearest", {out.buffer(), in.buffer()}, 1, {step, bool_attribute("exact", false)}),
            MYDEV_INVALID_ARGUMENT);
}

MYDEV_INSTANTIATE_FOR_INSTRUCTION_SETS(UpsampleKernels);

}  // namespace
}  // namespace mydev::kernels
