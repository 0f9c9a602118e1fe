// The random kernels: known answers of Philox 4x32-10, and numbers that depend on seed and position alone.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "kernel_fixture.h"
#include "runtime/base/philox.h"
#include "runtime/frame/uniform_range.h"

namespace mydev::kernels {
namespace {

using RandomKernels = KernelTest;

std::vector<mydev_attribute> state(uint64_t seed, uint64_t offset, std::vector<mydev_attribute> rest = {}) {
  std::vector<mydev_attribute> attributes = {int_attribute("seed", static_cast<int64_t>(seed)),
                                             int_attribute("offset", static_cast<int64_t>(offset))};
  attributes.insert(attributes.end(), rest.begin(), rest.end());
  return attributes;
}

// The vectors that come with Random123: all zeros, all ones, and digits of pi.
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox4x32_10(0, 0), (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32_10(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32_10(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST_P(RandomKernels, IntegersAreTheGeneratorsWords) {
  Operand<int64_t> out({501}, MYDEV_S64);
  const uint64_t seed = 0x123456789abcdef0, offset = 0xfffffff0;  // the counter carries into its upper word
  ASSERT_EQ(run("mydev.random_integers", {out.buffer()}, 1,
                state(seed, offset, {int_attribute("low", 0), int_attribute("range", 0)})),
            MYDEV_OK);
  for (size_t i = 0; i < out.values.size(); ++i) {
    const auto words = philox4x32_10(seed, offset + i / 2);
    const uint64_t expected = uint64_t{words[i % 2 * 2]} << 32 | words[i % 2 * 2 + 1];
    ASSERT_EQ(static_cast<uint64_t>(out.values[i]), expected) << i;
  }
}

TEST_P(RandomKernels, UniformUsesTheUpperBitsOfEachWord) {
  Operand<float> out({1026}, MYDEV_F32);
  ASSERT_EQ(run("mydev.random_uniform", {out.buffer()}, 1,
                state(7, 3, {float_attribute("low", 0), float_attribute("high", 1)})),
            MYDEV_OK);
  for (size_t i = 0; i < out.values.size(); ++i) {
    const uint32_t word = philox4x32_10(7, 3 + i / 4)[i % 4];
    ASSERT_EQ(out.values[i], static_cast<float>(word >> 8) / 16777216.0f) << i;
  }
}

template <typename T>
void expect_below_the_end(const std::function<mydev_code(const mydev_buffer&, double, double)>& draw, mydev_dtype dtype,
                          const std::function<double(T)>& number) {
  for (const auto& [low, high] : {std::pair{0.0, 1.0}, {-1.0, 0.0}, {-3.0, -1.0}, {0.0, 0.1}, {1.0, 1.0}}) {
    SCOPED_TRACE(high);
    Operand<T> out({200'000}, dtype);
    ASSERT_EQ(draw(out.buffer(), low, high), MYDEV_OK);
    double least = high, most = low;
    for (const T value : out.values) {
      least = std::min(least, number(value));
      most = std::max(most, number(value));
    }
    EXPECT_GE(least, low);
    EXPECT_LE(most, greatest_below(dtype, low, high));
  }
}

// A number that has more digits than the type would be rounded to the end now and then.
TEST_P(RandomKernels, UniformIsBelowItsEndInHalfPrecisionToo) {
  const auto draw = [](const mydev_buffer& out, double low, double high) {
    return run("mydev.random_uniform", {out}, 1,
               state(7, 3, {float_attribute("low", low), float_attribute("high", high)}));
  };
  expect_below_the_end<uint16_t>(draw, MYDEV_BF16, [](uint16_t bits) {
    return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
  });
  expect_below_the_end<_Float16>(draw, MYDEV_F16, [](_Float16 value) { return static_cast<double>(value); });
}

TEST(UniformRange, EndsAtTheNumberBefore) {
  EXPECT_EQ(greatest_below(MYDEV_F32, 0, 1), static_cast<double>(std::nextafterf(1, 0)));
  EXPECT_EQ(greatest_below(MYDEV_F32, 0, 3), static_cast<double>(std::nextafterf(3, 0)));
  EXPECT_EQ(greatest_below(MYDEV_F32, -1, 0), static_cast<double>(std::nextafterf(0, -1)));
  EXPECT_EQ(greatest_below(MYDEV_F32, -2, -1), static_cast<double>(std::nextafterf(-1, -2)));
  EXPECT_EQ(greatest_below(MYDEV_F32, 0, 0.1), static_cast<double>(std::nextafterf(0.1f, 0)));
  EXPECT_EQ(greatest_below(MYDEV_F64, 0, 0.1), std::nextafter(0.1, 0));
  EXPECT_EQ(greatest_below(MYDEV_F64, -5, 1e-320), std::nextafter(1e-320, 0));
  EXPECT_EQ(greatest_below(MYDEV_BF16, 0, 1), 1 - 0x1p-8);
  EXPECT_EQ(greatest_below(MYDEV_F16, 0, 1), 1 - 0x1p-11);
  EXPECT_EQ(greatest_below(MYDEV_F16, -1, -0.99999), -1);
  EXPECT_EQ(greatest_below(MYDEV_F16, -2, -0.99999), -1 - 0x1p-10);
  EXPECT_EQ(greatest_below(MYDEV_F16, 5, 5), 5);
}

struct Fill {
  const char* kernel;
  std::vector<mydev_attribute> parameters;
};
const Fill kFills[] = {
    {"mydev.random_uniform", {float_attribute("low", -1), float_attribute("high", 2)}},
    {"mydev.random_normal", {float_attribute("mean", 1), float_attribute("std", 2)}},
    {"mydev.random_exponential", {float_attribute("rate", 3)}},
    {"mydev.random_bernoulli", {float_attribute("p", 0.25)}},
};

// So no split into threads can change the elements.
TEST_P(RandomKernels, AnElementDependsOnItsPositionAlone) {
  for (const Fill& fill : kFills) {
    SCOPED_TRACE(fill.kernel);
    Operand<float> whole({70000}, MYDEV_F32), tail({70000 - 4096}, MYDEV_F32);
    ASSERT_EQ(run(fill.kernel, {whole.buffer()}, 1, state(9, 100, fill.parameters)), MYDEV_OK);
    ASSERT_EQ(run(fill.kernel, {tail.buffer()}, 1, state(9, 100 + 1024, fill.parameters)), MYDEV_OK);
    EXPECT_EQ(std::memcmp(whole.values.data() + 4096, tail.values.data(), tail.values.size() * sizeof(float)), 0);
  }
}

TEST_P(RandomKernels, AnotherSeedOrOffsetGivesOtherNumbers) {
  for (const Fill& fill : kFills) {
    SCOPED_TRACE(fill.kernel);
    Operand<float> first({1000}, MYDEV_F32), second({1000}, MYDEV_F32), third({1000}, MYDEV_F32);
    ASSERT_EQ(run(fill.kernel, {first.buffer()}, 1, state(1, 0, fill.parameters)), MYDEV_OK);
    ASSERT_EQ(run(fill.kernel, {second.buffer()}, 1, state(2, 0, fill.parameters)), MYDEV_OK);
    ASSERT_EQ(run(fill.kernel, {third.buffer()}, 1, state(1, 1, fill.parameters)), MYDEV_OK);
    EXPECT_NE(first.values, second.values);
    EXPECT_NE(first.values, third.values);
  }
}

// A graph that runs again and again works like this: its attributes stay, and memory says where its numbers begin.
TEST_P(RandomKernels, AStateInMemoryIsWhereNumbersBegin) {
  Operand<int64_t> begin({2}, MYDEV_S64);
  begin.values = {9, 60};
  for (const Fill& fill : kFills) {
    SCOPED_TRACE(fill.kernel);
    Operand<float> expected({1001}, MYDEV_F32), out({1001}, MYDEV_F32);
    ASSERT_EQ(run(fill.kernel, {expected.buffer()}, 1, state(9, 100, fill.parameters)), MYDEV_OK);
    ASSERT_EQ(run(fill.kernel, {out.buffer(), begin.buffer()}, 1, state(1, 40, fill.parameters)), MYDEV_OK);
    EXPECT_EQ(out.values, expected.values);
  }
  Operand<float> in({77}, MYDEV_F32), expected({77}, MYDEV_F32), out({77}, MYDEV_F32);
  Operand<uint8_t> mask({77}, MYDEV_PRED);
  in.fill(3);
  const std::vector<mydev_attribute> half = {float_attribute("p", 0.5)};
  ASSERT_EQ(run("mydev.dropout", {expected.buffer(), mask.buffer(), in.buffer()}, 2, state(9, 100, half)), MYDEV_OK);
  ASSERT_EQ(run("mydev.dropout", {out.buffer(), mask.buffer(), in.buffer(), begin.buffer()}, 2, state(1, 40, half)),
            MYDEV_OK);
  EXPECT_EQ(out.values, expected.values);
}

TEST_P(RandomKernels, AStateIsTwoNumbers) {
  Operand<float> out({10}, MYDEV_F32), floats({2}, MYDEV_F32);
  Operand<int64_t> one({1}, MYDEV_S64);
  for (const Fill& fill : kFills) {
    SCOPED_TRACE(fill.kernel);
    EXPECT_EQ(run(fill.kernel, {out.buffer(), floats.buffer()}, 1, state(0, 0, fill.parameters)), MYDEV_UNIMPLEMENTED);
    EXPECT_EQ(run(fill.kernel, {out.buffer(), one.buffer()}, 1, state(0, 0, fill.parameters)), MYDEV_UNIMPLEMENTED);
  }
}

TEST_P(RandomKernels, NormalHasItsMoments) {
  Operand<float> out({100000}, MYDEV_F32);
  ASSERT_EQ(run("mydev.random_normal", {out.buffer()}, 1,
                state(5, 0, {float_attribute("mean", 0), float_attribute("std", 1)})),
            MYDEV_OK);
  double moments[5] = {};
  for (const double x : out.values) {
    for (int k = 1; k <= 4; ++k) moments[k] += std::pow(x, k) / 1e5;
  }
  EXPECT_NEAR(moments[1], 0, 0.016);  // five standard errors each
  EXPECT_NEAR(moments[2], 1, 0.023);
  EXPECT_NEAR(moments[3], 0, 0.062);
  EXPECT_NEAR(moments[4], 3, 0.155);
}

TEST_P(RandomKernels, BernoulliIsCertainAtBothEnds) {
  Operand<float> out({999}, MYDEV_F32);
  ASSERT_EQ(run("mydev.random_bernoulli", {out.buffer()}, 1, state(0, 0, {float_attribute("p", 0)})), MYDEV_OK);
  EXPECT_EQ(std::accumulate(out.values.begin(), out.values.end(), 0.0f), 0.0f);
  ASSERT_EQ(run("mydev.random_bernoulli", {out.buffer()}, 1, state(0, 0, {float_attribute("p", 1)})), MYDEV_OK);
  EXPECT_EQ(std::accumulate(out.values.begin(), out.values.end(), 0.0f), 999.0f);
}

TEST_P(RandomKernels, DropoutScalesWhatItKeeps) {
  Operand<float> out({5000}, MYDEV_F32), in({5000}, MYDEV_F32), grad({5000}, MYDEV_F32);
  Operand<uint8_t> mask({5000}, MYDEV_PRED);
  in.fill(3);
  ASSERT_EQ(
      run("mydev.dropout", {out.buffer(), mask.buffer(), in.buffer()}, 2, state(4, 4, {float_attribute("p", 0.5)})),
      MYDEV_OK);
  ASSERT_EQ(
      run("mydev.dropout_backward", {grad.buffer(), in.buffer(), mask.buffer()}, 1, {float_attribute("scale", 2)}),
      MYDEV_OK);
  int kept = 0;
  for (size_t i = 0; i < in.values.size(); ++i) {
    ASSERT_EQ(out.values[i], mask.values[i] != 0 ? in.values[i] * 2 : 0.0f);
    ASSERT_EQ(grad.values[i], out.values[i]);
    kept += mask.values[i];
  }
  EXPECT_NEAR(kept, 2500, 177);  // five standard errors
}

MYDEV_INSTANTIATE_FOR_INSTRUCTION_SETS(RandomKernels);

}  // namespace
}  // namespace mydev::kernels
