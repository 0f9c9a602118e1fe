// group_norm against plain loops in double, in each instruction set: both dense orders, strided images, groups of one
// channel and of more than a chunk, absent operands.
#include <cmath>

#include "kernel_fixture.h"

namespace mydev::kernels {
namespace {

enum class Order { kChannelsFirst, kChannelsLast, kReversed };

struct Case {
  const char* name;
  int64_t samples, groups, depth, places;
  Order order;
};

const Case kCases[] = {
    {"first", 2, 3, 4, 20, Order::kChannelsFirst},      {"last", 2, 3, 4, 20, Order::kChannelsLast},
    {"reversed", 2, 3, 4, 20, Order::kReversed},        {"one_channel", 2, 70, 1, 9, Order::kChannelsLast},
    {"wide_last", 1, 2, 1050, 3, Order::kChannelsLast}, {"long", 1, 2, 2, 1100, Order::kChannelsFirst},
    {"many_last", 2, 32, 10, 6, Order::kChannelsLast},  {"one_place", 3, 2, 5, 1, Order::kChannelsFirst},
};

template <typename T>
Operand<T> image(const Case& c, mydev_dtype dtype, uint32_t seed) {
  Operand<T> made({c.samples, c.groups, c.depth, c.places}, dtype);
  const int64_t channels = c.groups * c.depth;
  if (c.order == Order::kChannelsLast) made.strides = {channels * c.places, c.depth, 1, channels};
  if (c.order == Order::kReversed) made.strides = {1, c.samples, c.samples * c.groups, c.samples * channels};
  return made.fill(seed);
}

class GroupNormKernels : public KernelTest {
 protected:
  template <typename T>
  static void check(const Case& c, mydev_dtype dtype, bool whole, double tolerance) {
    SCOPED_TRACE(c.name);
    Operand<T> in = image<T>(c, dtype, 1), out = image<T>(c, dtype, 2), grad_out = image<T>(c, dtype, 3),
               grad_in = image<T>(c, dtype, 4);
    Operand<T> mean({c.samples, c.groups}, dtype), rstd({c.samples, c.groups}, dtype);
    Operand<T> weight({c.groups, c.depth}, dtype), bias({c.groups, c.depth}, dtype),
        grad_weight({c.groups, c.depth}, dtype), grad_bias({c.groups, c.depth}, dtype);
    weight.fill(5);
    bias.fill(6);
    const auto given = [&](Operand<T>& operand) { return whole ? operand.buffer() : absent_operand(dtype); };
    ASSERT_EQ(
        run("mydev.group_norm", {out.buffer(), mean.buffer(), rstd.buffer(), in.buffer(), given(weight), given(bias)},
            3, {float_attribute("eps", 1e-3)}),
        MYDEV_OK);
    ASSERT_EQ(run("mydev.group_norm_backward",
                  {grad_in.buffer(), given(grad_weight), given(grad_bias), grad_out.buffer(), in.buffer(),
                   mean.buffer(), rstd.buffer(), given(weight)},
                  3),
              MYDEV_OK);
    std::vector<double> weight_sum(weight.values.size()), bias_sum(weight.values.size());
    const auto count = static_cast<double>(c.depth * c.places);
    for (int64_t group = 0; group < c.samples * c.groups; ++group) {
      const int64_t n = group / c.groups, g = group % c.groups;
      const auto at = [&](int64_t i) {
        return static_cast<size_t>(n * in.strides[0] + g * in.strides[1] + i / c.places * in.strides[2] +
                                   i % c.places * in.strides[3]);
      };
      const auto channel = [&](int64_t i) { return static_cast<size_t>(g * c.depth + i / c.places); };
      double sum = 0, squares = 0, slope = 0, shift = 0;
      for (int64_t i = 0; i < c.depth * c.places; ++i) sum += in.values[at(i)];
      const double center = sum / count;
      for (int64_t i = 0; i < c.depth * c.places; ++i) squares += std::pow(in.values[at(i)] - center, 2);
      const double scale = 1 / std::sqrt(squares / count + 1e-3);
      ASSERT_NEAR(mean.values[static_cast<size_t>(group)], center, tolerance);
      ASSERT_NEAR(rstd.values[static_cast<size_t>(group)], scale, tolerance);
      const auto factor = [&](int64_t i) { return whole ? static_cast<double>(weight.values[channel(i)]) : 1.0; };
      for (int64_t i = 0; i < c.depth * c.places; ++i) {
        const double normal = (in.values[at(i)] - center) * scale, grad = grad_out.values[at(i)];
        ASSERT_NEAR(out.values[at(i)], normal * factor(i) + (whole ? bias.values[channel(i)] : 0), tolerance);
        slope += grad * factor(i) * normal / count;
        shift += grad * factor(i) / count;
        weight_sum[channel(i)] += grad * normal;
        bias_sum[channel(i)] += grad;
      }
      for (int64_t i = 0; i < c.depth * c.places; ++i) {
        const double normal = (in.values[at(i)] - center) * scale;
        ASSERT_NEAR(grad_in.values[at(i)], scale * (grad_out.values[at(i)] * factor(i) - shift - normal * slope),
                    tolerance);
      }
    }
    for (size_t i = 0; whole && i < weight_sum.size(); ++i) {
      ASSERT_NEAR(grad_weight.values[i], weight_sum[i], 10 * tolerance);
      ASSERT_NEAR(grad_bias.values[i], bias_sum[i], 10 * tolerance);
    }
  }
};

TEST_P(GroupNormKernels, AgreeWithPlainLoops) {
  for (const Case& c : kCases) {
    check<float>(c, MYDEV_F32, true, 1e-4);
    check<double>(c, MYDEV_F64, true, 1e-11);
  }
}
TEST_P(GroupNormKernels, AgreeWithoutWeightAndBias) {
  for (const Case& c : kCases) check<float>(c, MYDEV_F32, false, 1e-4);
}

MYDEV_INSTANTIATE_FOR_INSTRUCTION_SETS(GroupNormKernels);

}  // namespace
}  // namespace mydev::kernels
