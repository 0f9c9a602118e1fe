// The pointwise kernels, in every instruction set that this processor runs: accuracy of the elementary functions
// against the C library in double, layouts against a loop over indices, values and failures.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "pointwise_fixture.h"

namespace mydev::kernels {
namespace {

// --- accuracy --------------------------------------------------------------------------------------------------------

struct Function {
  const char* name;
  double (*reference)(double);
  double ulps;
};

double ulps_apart(float got, double want) {
  const auto rounded = static_cast<float>(want);
  if (std::isnan(want)) return std::isnan(got) ? 0 : kInfinity;
  if (rounded == got) return std::signbit(rounded) == std::signbit(got) ? 0 : kInfinity;
  if (std::isinf(rounded) || std::isinf(got)) return kInfinity;
  const float magnitude = std::fabs(rounded);
  return std::fabs(got - want) / (std::nextafter(magnitude, kInfinity) - magnitude);
}

class Accuracy : public testing::TestWithParam<std::tuple<InstructionSet, Function>> {};

// Every 20,000th float, of all exponents and both signs, and the values where functions turn special.
std::vector<float> sample_floats() {
  std::vector<float> samples = {0.0f,  -0.0f, 1.0f,   -1.0f,   0.5f,      -0.5f,      kInfinity, -kInfinity,
                                kNan,  88.8f, -88.8f, -103.9f, 1e-45f,    -1e-45f,    3.4e38f,   -3.4e38f,
                                20.0f, 2.0f,  3.0f,   1e6f,    1.000001f, 0.9999999f, 123456.7f, 1e30f};
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 19997) {
    const auto word = static_cast<uint32_t>(bits);
    float value = 0;
    std::memcpy(&value, &word, sizeof(value));
    samples.push_back(value);
  }
  return samples;
}

TEST_P(Accuracy, StaysWithinAFewUlpsOverTheWholeRange) {
  const auto& [isa, function] = GetParam();
  auto in = dense(sample_floats(), MYDEV_F32);
  auto out = dense(std::vector<float>(in.memory.size()), MYDEV_F32);
  ASSERT_EQ(run_kernel(builtin_kernel(std::string("mydev.") + function.name, isa), {out.buffer(), in.buffer()}),
            MYDEV_OK);
  double worst = 0;
  float where = 0;
  for (size_t i = 0; i < in.memory.size(); ++i) {
    const double error = ulps_apart(out.memory[i], function.reference(in.memory[i]));
    if (error > worst) {
      worst = error;
      where = in.memory[i];
    }
  }
  EXPECT_LE(worst, function.ulps) << "at " << where;
}

const Function kFunctions[] = {
    {"exp", std::exp, 1.5},   {"exp2", std::exp2, 4},       {"expm1", std::expm1, 4}, {"log", std::log, 1.5},
    {"log2", std::log2, 4},   {"log10", std::log10, 1},     {"log1p", std::log1p, 4}, {"sin", std::sin, 4},
    {"cos", std::cos, 4},     {"tan", std::tan, 4},         {"asin", std::asin, 4},   {"acos", std::acos, 4},
    {"atan", std::atan, 4},   {"sinh", std::sinh, 4},       {"cosh", std::cosh, 4},   {"tanh", std::tanh, 2.5},
    {"asinh", std::asinh, 4}, {"acosh", std::acosh, 4},     {"atanh", std::atanh, 4}, {"erf", std::erf, 2},
    {"erfc", std::erfc, 4},   {"cbrt", std::cbrt, 1},       {"sqrt", std::sqrt, 0.5}, {"floor", std::floor, 0},
    {"ceil", std::ceil, 0},   {"round", std::nearbyint, 0}, {"trunc", std::trunc, 0},
};

// Users compare these with ==.
TEST(ElementaryFunctions, AreExactForPowers) {
  const auto expect_exact = [](const char* name, std::vector<float> of, std::vector<float> want) {
    for (const InstructionSet isa : all_instruction_sets()) {
      auto in = dense(of, MYDEV_F32);
      auto out = dense(std::vector<float>(of.size()), MYDEV_F32);
      ASSERT_EQ(run_kernel(builtin_kernel(std::string("mydev.") + name, isa), {out.buffer(), in.buffer()}), MYDEV_OK);
      EXPECT_EQ(out.memory, want) << name << " on " << isa_name(isa);
    }
  };
  expect_exact("log10", {1e-3f, 10, 100, 1000, 1e5f, 1e10f}, {-3, 1, 2, 3, 5, 10});
  expect_exact("log2", {0.125f, 2, 8, 1024, 0x1p100f}, {-3, 1, 3, 10, 100});
  expect_exact("exp2", {-3, 0, 1, 10, 100}, {0.125f, 1, 2, 1024, 0x1p100f});
  expect_exact("cbrt", {-8, 27, 1000, 1e6f}, {-2, 3, 10, 100});
}

INSTANTIATE_TEST_SUITE_P(Pointwise, Accuracy,
                         testing::Combine(testing::ValuesIn(all_instruction_sets()), testing::ValuesIn(kFunctions)),
                         [](const auto& info) {
                           return isa_name(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name;
                         });

struct WideFunction {
  const char* name;
  long double (*reference)(long double);
};

class AccuracyOfDoubles : public testing::TestWithParam<std::tuple<InstructionSet, WideFunction>> {};

// Exponents from -1074 to 1023 in both signs, more near one, and the values where functions turn special.
std::vector<double> sample_doubles() {
  std::vector<double> samples = {0.0,  -0.0,  1.0,  -1.0,  0.5,   -0.5, kInfinity, -kInfinity,
                                 kNan, 709.7, -745, 710.5, 1e308, 2.0,  5e-324,    -5e-324};
  for (int i = -20000; i <= 20000; ++i) {
    samples.push_back(i * 0.0007);
    samples.push_back(std::ldexp(1.0 + std::abs(i) * 3e-5, i % 1020) * (i % 3 == 0 ? -1 : 1));
  }
  return samples;
}

TEST_P(AccuracyOfDoubles, StaysWithinFourUlps) {
  const auto& [isa, function] = GetParam();
  auto in = dense(sample_doubles(), MYDEV_F64);
  auto out = dense(std::vector<double>(in.memory.size()), MYDEV_F64);
  ASSERT_EQ(run_kernel(builtin_kernel(std::string("mydev.") + function.name, isa), {out.buffer(), in.buffer()}),
            MYDEV_OK);
  for (size_t i = 0; i < in.memory.size(); ++i) {
    const long double exact = function.reference(in.memory[i]);
    const auto want = static_cast<double>(exact);
    const double got = out.memory[i];
    if (std::isnan(want) || std::isinf(want) || want == 0) {
      EXPECT_TRUE(std::isnan(want) ? std::isnan(got) : got == want || std::nextafter(got, want) == want)
          << function.name << " of " << in.memory[i] << " is " << got;
      continue;
    }
    const double ulp = std::nextafter(std::fabs(want), kInfinity) - std::fabs(want);
    EXPECT_LE(static_cast<double>(std::fabs(static_cast<long double>(got) - exact)), 4 * ulp)
        << function.name << " of " << in.memory[i];
  }
}

const WideFunction kWideFunctions[] = {
    {"exp", std::exp},     {"exp2", std::exp2},   {"expm1", std::expm1}, {"log", std::log},     {"log2", std::log2},
    {"log10", std::log10}, {"log1p", std::log1p}, {"sin", std::sin},     {"cos", std::cos},     {"tan", std::tan},
    {"asin", std::asin},   {"acos", std::acos},   {"atan", std::atan},   {"sinh", std::sinh},   {"cosh", std::cosh},
    {"tanh", std::tanh},   {"asinh", std::asinh}, {"acosh", std::acosh}, {"atanh", std::atanh}, {"erf", std::erf},
    {"erfc", std::erfc},   {"cbrt", std::cbrt},
};

INSTANTIATE_TEST_SUITE_P(Pointwise, AccuracyOfDoubles,
                         testing::Combine(testing::ValuesIn(all_instruction_sets()), testing::ValuesIn(kWideFunctions)),
                         [](const auto& info) {
                           return isa_name(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name;
                         });

// Remainders are exact: each element is that of the C library.
template <typename T>
void expect_exact_remainders(const mydev_kernel& fmod, mydev_dtype dtype) {
  const std::vector<T> values = {T(0),
                                 T(-0.0),
                                 T(1),
                                 T(-1),
                                 T(0.7),
                                 T(-3),
                                 T(5.25),
                                 T(1e-30),
                                 T(-1e30),
                                 T(123456.789),
                                 T(16777215),
                                 T(-16777217),
                                 T(1e10),
                                 T(kInfinity),
                                 T(-kInfinity),
                                 T(kNan),
                                 std::numeric_limits<T>::min(),
                                 std::numeric_limits<T>::denorm_min(),
                                 std::numeric_limits<T>::max()};
  std::vector<T> dividends, divisors;
  for (const T a : values) {
    for (const T b : values) {
      dividends.push_back(a);
      divisors.push_back(b);
    }
  }
  for (int i = 1; i < 5000; ++i) {  // quotients next to integers
    divisors.push_back(T(0.1) * static_cast<T>(i % 97 + 1));
    dividends.push_back(divisors.back() * static_cast<T>(i * 31));
  }
  auto a = dense(dividends, dtype), b = dense(divisors, dtype), out = dense(std::vector<T>(dividends.size()), dtype);
  ASSERT_EQ(run_kernel(fmod, {out.buffer(), a.buffer(), b.buffer()}), MYDEV_OK);
  for (size_t i = 0; i < dividends.size(); ++i) {
    const T want = std::fmod(dividends[i], divisors[i]);
    EXPECT_TRUE(std::isnan(want) ? std::isnan(out.memory[i]) : out.memory[i] == want)
        << dividends[i] << " % " << divisors[i];
    if (!std::isnan(want)) EXPECT_EQ(std::signbit(out.memory[i]), std::signbit(want)) << dividends[i];
  }
}

class Remainders : public PerInstructionSet {};
INSTANTIATE_TEST_SUITE_P(Pointwise, Remainders, testing::ValuesIn(all_instruction_sets()),
                         [](const auto& info) { return isa_name(info.param); });

TEST_P(Remainders, AreExact) {
  expect_exact_remainders<float>(kernel("mydev.fmod"), MYDEV_F32);
  expect_exact_remainders<double>(kernel("mydev.fmod"), MYDEV_F64);
}

// A number in place of an operand like the given one; both outlive the launch.
mydev_buffer scalar(mydev_buffer like, const mydev_scalar& number) {
  static constexpr std::array<int64_t, MYDEV_MAX_SHAPE_RANK> kNoStrides = {};
  like.data = const_cast<mydev_scalar*>(&number);
  like.strides = kNoStrides.data();
  like.flags = MYDEV_BUFFER_SCALAR;
  return like;
}

class Power : public testing::TestWithParam<std::tuple<InstructionSet, float>> {};

TEST_P(Power, AgreesWithTheCLibraryForEveryBase) {
  const auto& [isa, exponent] = GetParam();
  auto base = dense(sample_floats(), MYDEV_F32);
  auto out = dense(std::vector<float>(base.memory.size()), MYDEV_F32);
  const mydev_scalar number{.f = exponent};
  ASSERT_EQ(run_kernel(builtin_kernel("mydev.pow", isa), {out.buffer(), base.buffer(), scalar(base.buffer(), number)}),
            MYDEV_OK);
  double worst = 0;
  for (size_t i = 0; i < base.memory.size(); ++i) {
    worst = std::max(worst, ulps_apart(out.memory[i], std::pow(static_cast<double>(base.memory[i]), exponent)));
  }
  EXPECT_LE(worst, 1);
}

INSTANTIATE_TEST_SUITE_P(Pointwise, Power,
                         testing::Combine(testing::ValuesIn(all_instruction_sets()),
                                          testing::Values(0.0f, 1.0f, 2.0f, 3.0f, -1.0f, 0.5f, -2.5f, 16777215.0f, 1e9f,
                                                          kInfinity, -kInfinity, kNan)));

// --- integers --------------------------------------------------------------------------------------------------------

// Every pair of the extremes, of numbers near powers of two, and of small ones.
template <typename T>
std::pair<std::vector<T>, std::vector<T>> pairs_of_integers(bool with_zero_divisors) {
  std::vector<T> values = {
      std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), T(0), T(1), T(-1), T(3), T(-7)};
  for (size_t bit = 2; bit < 8 * sizeof(T) - 1; ++bit) {
    for (const int64_t near : {-1, 0, 1}) {
      values.push_back(static_cast<T>((int64_t{1} << bit) + near));
      values.push_back(static_cast<T>(-(int64_t{1} << bit) + near));
    }
  }
  std::pair<std::vector<T>, std::vector<T>> result;
  for (const T a : values) {
    for (const T b : values) {
      if (b == 0 && !with_zero_divisors) continue;
      result.first.push_back(a);
      result.second.push_back(b);
    }
  }
  return result;
}

// Python's and C's quotient and remainder, in more bits than T has.
template <typename T>
void expect_exact_quotients(InstructionSet isa, mydev_dtype dtype) {
  const auto [dividends, divisors] = pairs_of_integers<T>(false);
  auto a = dense(dividends, dtype), b = dense(divisors, dtype), out = dense(std::vector<T>(dividends.size()), dtype);
  const auto expect = [&](const char* name, const auto& reference) {
    ASSERT_EQ(run_kernel(builtin_kernel(name, isa), {out.buffer(), a.buffer(), b.buffer()}), MYDEV_OK);
    for (size_t i = 0; i < dividends.size(); ++i) {
      const __int128 x = dividends[i], y = divisors[i];
      ASSERT_EQ(out.memory[i], static_cast<T>(reference(x, y)))
          << name << " of " << dividends[i] << ", " << divisors[i];
    }
  };
  const auto is_down = [](__int128 x, __int128 y) { return x % y != 0 && (x < 0) != (y < 0); };
  expect("mydev.div_trunc", [](__int128 x, __int128 y) { return x / y; });
  expect("mydev.fmod", [](__int128 x, __int128 y) { return x % y; });
  expect("mydev.div_floor", [&](__int128 x, __int128 y) { return x / y - is_down(x, y); });
  expect("mydev.remainder", [&](__int128 x, __int128 y) { return x % y + (is_down(x, y) ? y : 0); });
}

// Small integers have the low bits of what 32 have, and are ordered as they are.
template <typename T>
void expect_arithmetic_of_small(InstructionSet isa, mydev_dtype dtype) {
  const auto [firsts, seconds] = pairs_of_integers<T>(true);
  auto a = dense(firsts, dtype), b = dense(seconds, dtype), out = dense(std::vector<T>(firsts.size()), dtype);
  auto truth = dense(std::vector<uint8_t>(firsts.size()), MYDEV_PRED);
  const mydev_scalar number{.i = 1000};
  const auto expect = [&](const char* name, auto& results, const auto& second, const auto& reference) {
    ASSERT_EQ(run_kernel(builtin_kernel(name, isa), {results.buffer(), a.buffer(), second.first}), MYDEV_OK);
    for (size_t i = 0; i < firsts.size(); ++i) {
      const int32_t y = second.second != nullptr ? *second.second : seconds[i];
      using Result = std::decay_t<decltype(results.memory[0])>;
      ASSERT_EQ(results.memory[i], static_cast<Result>(reference(int32_t{firsts[i]}, y))) << name << " " << +firsts[i];
    }
  };
  const int32_t thousand = 1000;
  const std::pair<mydev_buffer, const int32_t*> elements{b.buffer(), nullptr},
      numbers{scalar(b.buffer(), number), &thousand};
  for (const auto& second : {elements, numbers}) {
    expect("mydev.add", out, second, [](int32_t x, int32_t y) { return x + y; });
    expect("mydev.sub", out, second, [](int32_t x, int32_t y) { return x - y; });
    expect("mydev.mul", out, second, [](int32_t x, int32_t y) { return x * y; });
    expect("mydev.bitwise_xor", out, second, [](int32_t x, int32_t y) { return x ^ y; });
    expect("mydev.maximum", out, second, [](int32_t x, int32_t y) { return std::max(x, y); });
    expect("mydev.lt", truth, second, [](int32_t x, int32_t y) { return x < y; });
    expect("mydev.ge", truth, second, [](int32_t x, int32_t y) { return x >= y; });
  }
}

class Integers : public PerInstructionSet {};
INSTANTIATE_TEST_SUITE_P(Pointwise, Integers, testing::ValuesIn(all_instruction_sets()),
                         [](const auto& info) { return isa_name(info.param); });

TEST_P(Integers, HaveExactQuotients) {
  expect_exact_quotients<int32_t>(GetParam(), MYDEV_S32);
  expect_exact_quotients<int64_t>(GetParam(), MYDEV_S64);
}

TEST_P(Integers, SmallOnesAreCutAndOrdered) {
  expect_arithmetic_of_small<uint8_t>(GetParam(), MYDEV_U8);
  expect_arithmetic_of_small<int8_t>(GetParam(), MYDEV_S8);
  expect_arithmetic_of_small<int16_t>(GetParam(), MYDEV_S16);
}

// --- layouts ---------------------------------------------------------------------------------------------------------

class Layouts : public testing::TestWithParam<std::tuple<InstructionSet, Layout, mydev_dtype>> {};

template <typename T>
void expect_sum_of_strided(const mydev_kernel& add, const Layout& layout, mydev_dtype dtype) {
  auto out = strided<T>(layout.sizes, layout.out, dtype, 1);
  auto a = strided<T>(layout.sizes, layout.a, dtype, 2);
  auto b = strided<T>(layout.sizes, layout.b, dtype, 3);
  StridedOperand<T> want = out;
  for (const auto& index : indices_of(layout)) want.at(index) = static_cast<T>(a.at(index) + 2 * b.at(index));
  ASSERT_EQ(run_kernel(add, {out.buffer(), a.buffer(), b.buffer()}, {int_attribute("alpha", 2)}), MYDEV_OK);
  EXPECT_EQ(out.memory, want.memory);  // gaps untouched too
}

TEST_P(Layouts, AddReachesEachElementOnce) {
  const auto& [isa, layout, dtype] = GetParam();
  const mydev_kernel& add = builtin_kernel("mydev.add", isa);
  switch (dtype) {
    case MYDEV_F32:
      return expect_sum_of_strided<float>(add, layout, dtype);
    case MYDEV_F64:
      return expect_sum_of_strided<double>(add, layout, dtype);
    case MYDEV_F16:
      return expect_sum_of_strided<_Float16>(add, layout, dtype);
    case MYDEV_U8:
      return expect_sum_of_strided<uint8_t>(add, layout, dtype);
    default:
      return expect_sum_of_strided<int64_t>(add, layout, dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Pointwise, Layouts,
                         testing::Combine(testing::ValuesIn(all_instruction_sets()), testing::ValuesIn(kLayouts),
                                          testing::Values(MYDEV_F32, MYDEV_F64, MYDEV_F16, MYDEV_U8, MYDEV_S64)),
                         [](const auto& info) {
                           return isa_name(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name + "_" +
                                  dtype_name(std::get<2>(info.param));
                         });

// --- values ----------------------------------------------------------------------------------------------------------

class PointwiseValues : public PerInstructionSet {};
INSTANTIATE_TEST_SUITE_P(Pointwise, PointwiseValues, testing::ValuesIn(all_instruction_sets()),
                         [](const auto& info) { return isa_name(info.param); });

TEST_P(PointwiseValues, OutputMayBeAnInput) {
  auto a = dense(std::vector<float>(1003, 3.0f), MYDEV_F32);
  ASSERT_EQ(run_kernel(kernel("mydev.mul"), {a.buffer(), a.buffer(), a.buffer()}), MYDEV_OK);
  EXPECT_EQ(a.memory, std::vector<float>(1003, 9.0f));
}

TEST_P(PointwiseValues, AnInputMayBeANumber) {
  auto a = dense<int64_t>({1, 2, 3}, MYDEV_S64);
  auto out = dense(std::vector<int64_t>(3), MYDEV_S64);
  constexpr int64_t kLarge = (int64_t{1} << 53) + 1;  // not a double
  const mydev_scalar number{.i = kLarge};
  ASSERT_EQ(run_kernel(kernel("mydev.add"), {out.buffer(), a.buffer(), scalar(a.buffer(), number)}), MYDEV_OK);
  EXPECT_EQ(out.memory, (std::vector<int64_t>{kLarge + 1, kLarge + 2, kLarge + 3}));
}

TEST_P(PointwiseValues, ComparisonsGivePred) {
  auto a = dense<float>({1, 2, kNan, -0.0f}, MYDEV_F32);
  auto b = dense<float>({2, 2, kNan, 0.0f}, MYDEV_F32);
  auto out = dense(std::vector<uint8_t>(4, 7), MYDEV_PRED);
  ASSERT_EQ(run_kernel(kernel("mydev.ne"), {out.buffer(), a.buffer(), b.buffer()}), MYDEV_OK);
  EXPECT_EQ(out.memory, (std::vector<uint8_t>{1, 0, 1, 0}));
}

TEST_P(PointwiseValues, ExtremaLetNanThrough) {
  auto a = dense<float>({1, kNan, 3}, MYDEV_F32);
  auto b = dense<float>({kNan, 2, 2}, MYDEV_F32);
  auto out = dense(std::vector<float>(3), MYDEV_F32);
  ASSERT_EQ(run_kernel(kernel("mydev.minimum"), {out.buffer(), a.buffer(), b.buffer()}), MYDEV_OK);
  EXPECT_TRUE(std::isnan(out.memory[0]) && std::isnan(out.memory[1]));
  EXPECT_EQ(out.memory[2], 2);
}

TEST_P(PointwiseValues, WhereTakesPredBesideT) {
  auto condition = dense<uint8_t>({1, 0, 1}, MYDEV_PRED);
  auto a = dense<double>({1, 2, 3}, MYDEV_F64);
  auto out = dense(std::vector<double>(3), MYDEV_F64);
  const mydev_scalar number{.f = -1};
  ASSERT_EQ(
      run_kernel(kernel("mydev.where"), {out.buffer(), condition.buffer(), a.buffer(), scalar(a.buffer(), number)}),
      MYDEV_OK);
  EXPECT_EQ(out.memory, (std::vector<double>{1, -1, 3}));
}

TEST_P(PointwiseValues, BoolsAddAsOr) {
  auto a = dense<uint8_t>({0, 1, 1}, MYDEV_PRED);
  auto out = dense(std::vector<uint8_t>(3), MYDEV_PRED);
  ASSERT_EQ(run_kernel(kernel("mydev.add"), {out.buffer(), a.buffer(), a.buffer()}), MYDEV_OK);
  EXPECT_EQ(out.memory, (std::vector<uint8_t>{0, 1, 1}));
}

TEST_P(PointwiseValues, ComplexProduct) {
  auto a = dense<float>({1, 2, 0, 1}, MYDEV_C64);
  a.sizes = {2};
  auto out = dense(std::vector<float>(4), MYDEV_C64);
  out.sizes = {2};
  ASSERT_EQ(run_kernel(kernel("mydev.mul"), {out.buffer(), a.buffer(), a.buffer()}), MYDEV_OK);
  EXPECT_EQ(out.memory, (std::vector<float>{-3, 4, -1, 0}));
}

class IntegerDivision : public testing::TestWithParam<std::tuple<InstructionSet, const char*, std::vector<int32_t>>> {};

TEST_P(IntegerDivision, FollowsItsRounding) {
  const auto& [isa, name, want] = GetParam();
  auto a = dense<int32_t>({7, -7, 7, -7, std::numeric_limits<int32_t>::min()}, MYDEV_S32);
  auto b = dense<int32_t>({2, 2, -2, -2, -1}, MYDEV_S32);
  auto out = dense(std::vector<int32_t>(5), MYDEV_S32);
  ASSERT_EQ(run_kernel(builtin_kernel(name, isa), {out.buffer(), a.buffer(), b.buffer()}), MYDEV_OK);
  EXPECT_EQ(out.memory, want);
}
TEST_P(IntegerDivision, FailsOnAZeroDivisor) {
  const auto& [isa, name, want] = GetParam();
  auto a = dense<int32_t>({7, 7}, MYDEV_S32);
  auto b = dense<int32_t>({2, 0}, MYDEV_S32);
  EXPECT_EQ(run_kernel(builtin_kernel(name, isa), {a.buffer(), a.buffer(), b.buffer()}), MYDEV_FAILED_PRECONDITION);
}

constexpr int32_t kSmallest = std::numeric_limits<int32_t>::min();
INSTANTIATE_TEST_SUITE_P(Truncated, IntegerDivision,
                         testing::Combine(testing::ValuesIn(all_instruction_sets()), testing::Values("mydev.div_trunc"),
                                          testing::Values(std::vector<int32_t>{3, -3, -3, 3, kSmallest})));
INSTANTIATE_TEST_SUITE_P(Floored, IntegerDivision,
                         testing::Combine(testing::ValuesIn(all_instruction_sets()), testing::Values("mydev.div_floor"),
                                          testing::Values(std::vector<int32_t>{3, -4, -4, 3, kSmallest})));
INSTANTIATE_TEST_SUITE_P(Remainder, IntegerDivision,
                         testing::Combine(testing::ValuesIn(all_instruction_sets()), testing::Values("mydev.remainder"),
                                          testing::Values(std::vector<int32_t>{1, 1, -1, -1, 0})));
INSTANTIATE_TEST_SUITE_P(Fmod, IntegerDivision,
                         testing::Combine(testing::ValuesIn(all_instruction_sets()), testing::Values("mydev.fmod"),
                                          testing::Values(std::vector<int32_t>{1, -1, 1, -1, 0})));

TEST_P(PointwiseValues, RefusesADtypeThatItLacks) {
  auto a = dense<int32_t>({1}, MYDEV_S32);
  EXPECT_EQ(run_kernel(kernel("mydev.exp"), {a.buffer(), a.buffer()}), MYDEV_UNIMPLEMENTED);
}
TEST_P(PointwiseValues, RefusesOperandsOfDifferentShapes) {
  auto a = dense<float>({1, 2}, MYDEV_F32);
  auto b = dense<float>({1, 2, 3}, MYDEV_F32);
  EXPECT_EQ(run_kernel(kernel("mydev.exp"), {a.buffer(), b.buffer()}), MYDEV_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace mydev::kernels
