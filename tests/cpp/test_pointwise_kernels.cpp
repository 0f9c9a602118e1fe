// The pointwise kernels, in every instruction set that this processor runs: accuracy of the elementary functions
// against the C library in double, layouts against a plain loop over indices, dtypes, conversions and failures.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "host_kernels/builtin_kernels.h"
#include "host_kernels/instruction_set.h"
#include "runtime/frame.h"
#include "runtime/host_services.h"
#include "runtime/launch.h"

namespace mydev::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

const mydev_kernel& kernel_of(InstructionSet isa, const std::string& name) {
  for (const mydev_kernel* kernel : builtin_kernels(isa)) {
    if (name == kernel->name) return *kernel;
  }
  throw std::runtime_error("no kernel " + name);
}

// A strided operand over memory of its own, larger than needed so that it can be walked backwards and with gaps.
template <typename T>
struct Operand {
  std::vector<T> memory;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
  mydev_dtype dtype;

  mydev_buffer buffer() {
    return {memory.data() + offset, sizes.data(), strides.data(), static_cast<int32_t>(sizes.size()), dtype};
  }
  T& at(const std::vector<int64_t>& index) {
    int64_t position = offset;
    for (size_t d = 0; d < sizes.size(); ++d) position += index[d] * strides[d];
    return memory[static_cast<size_t>(position)];
  }
};

template <typename T>
Operand<T> dense(std::vector<T> values, mydev_dtype dtype) {
  const auto n = static_cast<int64_t>(values.size());
  return {std::move(values), {n}, {1}, 0, dtype};
}

mydev_code run(const mydev_kernel& kernel, std::vector<mydev_buffer> buffers,
               std::vector<mydev_attribute> attributes = {}) {
  mydev_frame frame = make_frame(buffers, 1, attributes);
  frame.host = &host_services();
  return kernel.entry(&frame);
}

std::string isa_name(InstructionSet isa) {
  return instruction_set_name(isa);
}
std::vector<InstructionSet> all_instruction_sets() {
  const auto supported = supported_instruction_sets();
  return {supported.begin(), supported.end()};
}

// --- accuracy ------------------------------------------------------------------------------------------------------

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
  ASSERT_EQ(run(kernel_of(isa, std::string("mydev.") + function.name), {out.buffer(), in.buffer()}), MYDEV_OK);
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
    {"exp", std::exp, 1.5},       {"exp2", std::exp2, 1},   {"expm1", std::expm1, 1}, {"log", std::log, 1.5},
    {"log2", std::log2, 1},       {"log10", std::log10, 1}, {"log1p", std::log1p, 1}, {"sin", std::sin, 2},
    {"cos", std::cos, 2},         {"tan", std::tan, 3.5},   {"asin", std::asin, 1},   {"acos", std::acos, 1},
    {"atan", std::atan, 1},       {"sinh", std::sinh, 1},   {"cosh", std::cosh, 1},   {"tanh", std::tanh, 2},
    {"asinh", std::asinh, 1},     {"acosh", std::acosh, 1}, {"atanh", std::atanh, 1}, {"erf", std::erf, 2},
    {"erfc", std::erfc, 3},       {"sqrt", std::sqrt, 0.5}, {"floor", std::floor, 0}, {"ceil", std::ceil, 0},
    {"round", std::nearbyint, 0}, {"trunc", std::trunc, 0},
};

INSTANTIATE_TEST_SUITE_P(Pointwise, Accuracy,
                         testing::Combine(testing::ValuesIn(all_instruction_sets()), testing::ValuesIn(kFunctions)),
                         [](const auto& info) {
                           return isa_name(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name;
                         });

class Power : public testing::TestWithParam<std::tuple<InstructionSet, float>> {};

TEST_P(Power, AgreesWithTheCLibraryForEveryBase) {
  const auto& [isa, exponent] = GetParam();
  auto base = dense(sample_floats(), MYDEV_F32);
  auto out = dense(std::vector<float>(base.memory.size()), MYDEV_F32);
  mydev_buffer scalar = base.buffer();
  scalar.data = nullptr;
  ASSERT_EQ(
      run(kernel_of(isa, "mydev.pow"), {out.buffer(), base.buffer(), scalar}, {float_attribute("scalar", exponent)}),
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

// --- layouts -------------------------------------------------------------------------------------------------------

struct Layout {
  const char* name;
  std::vector<int64_t> sizes;
  std::vector<int64_t> out, a, b;  // strides
};

const Layout kLayouts[] = {
    {"Scalar", {}, {}, {}, {}},
    {"Empty", {3, 0, 2}, {0, 2, 1}, {0, 2, 1}, {0, 2, 1}},
    {"Short", {5}, {1}, {1}, {1}},
    {"OneElementOfManyDimensions", {1, 1, 1}, {7, 3, 1}, {1, 1, 1}, {0, 0, 0}},
    {"LongerThanABuffer", {5000}, {1}, {1}, {1}},
    {"BroadcastScalar", {5000}, {1}, {1}, {0}},
    {"Backwards", {700}, {1}, {-1}, {1}},
    {"EveryThird", {700}, {2}, {3}, {1}},
    {"Transposed", {70, 90}, {90, 1}, {1, 70}, {90, 1}},
    {"BothTransposed", {70, 90}, {1, 70}, {1, 70}, {1, 70}},
    {"TransposedOut", {70, 90}, {1, 70}, {90, 1}, {90, 1}},
    {"RowBroadcast", {33, 100}, {100, 1}, {100, 1}, {0, 1}},
    {"ColumnBroadcast", {33, 100}, {100, 1}, {100, 1}, {1, 0}},
    {"ShortRowsBroadcast", {300, 3}, {3, 1}, {3, 1}, {0, 1}},
    {"RowsWithGaps", {40, 64}, {80, 1}, {64, 1}, {100, 1}},
    {"OuterProduct", {80, 90}, {90, 1}, {1, 0}, {0, 1}},
    {"FiveDimensionsPermuted", {2, 3, 4, 5, 6}, {360, 120, 30, 6, 1}, {1, 2, 6, 24, 120}, {30, 360, 6, 120, 1}},
};

class Layouts : public testing::TestWithParam<std::tuple<InstructionSet, Layout, mydev_dtype>> {};

template <typename T>
Operand<T> strided(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, mydev_dtype dtype,
                   int seed) {
  int64_t low = 0, high = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int64_t reach = std::max<int64_t>(sizes[d] - 1, 0) * strides[d];
    (reach < 0 ? low : high) += reach;
  }
  Operand<T> operand{std::vector<T>(static_cast<size_t>(high - low + 1)), sizes, strides, -low, dtype};
  for (size_t i = 0; i < operand.memory.size(); ++i) {
    operand.memory[i] = static_cast<T>(static_cast<int>(i * 7 + static_cast<size_t>(seed)) % 50);
  }
  return operand;
}

template <typename T>
void expect_sum_of_strided(const mydev_kernel& add, const Layout& layout, mydev_dtype dtype) {
  auto out = strided<T>(layout.sizes, layout.out, dtype, 1);
  auto a = strided<T>(layout.sizes, layout.a, dtype, 2);
  auto b = strided<T>(layout.sizes, layout.b, dtype, 3);
  Operand<T> want = out;
  const int64_t count = std::accumulate(layout.sizes.begin(), layout.sizes.end(), int64_t{1}, std::multiplies<>());
  for (int64_t position = 0; position < count; ++position) {
    std::vector<int64_t> index(layout.sizes.size());
    int64_t rest = position;
    for (size_t d = layout.sizes.size(); d-- > 0; rest /= layout.sizes[d]) index[d] = rest % layout.sizes[d];
    want.at(index) = static_cast<T>(a.at(index) + 2 * b.at(index));
  }
  ASSERT_EQ(run(add, {out.buffer(), a.buffer(), b.buffer()}, {int_attribute("alpha", 2)}), MYDEV_OK);
  EXPECT_EQ(out.memory, want.memory);  // gaps untouched too
}

TEST_P(Layouts, AddReachesEachElementOnce) {
  const auto& [isa, layout, dtype] = GetParam();
  const mydev_kernel& add = kernel_of(isa, "mydev.add");
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

class PerInstructionSet : public testing::TestWithParam<InstructionSet> {
 protected:
  const mydev_kernel& kernel(const std::string& name) const { return kernel_of(GetParam(), name); }
};
INSTANTIATE_TEST_SUITE_P(Pointwise, PerInstructionSet, testing::ValuesIn(all_instruction_sets()),
                         [](const auto& info) { return isa_name(info.param); });

TEST_P(PerInstructionSet, OutputMayBeAnInput) {
  auto a = dense(std::vector<float>(1003, 3.0f), MYDEV_F32);
  ASSERT_EQ(run(kernel("mydev.mul"), {a.buffer(), a.buffer(), a.buffer()}), MYDEV_OK);
  EXPECT_EQ(a.memory, std::vector<float>(1003, 9.0f));
}

TEST_P(PerInstructionSet, ScalarAttributeStandsForAnInput) {
  auto a = dense<int64_t>({1, 2, 3}, MYDEV_S64);
  auto out = dense(std::vector<int64_t>(3), MYDEV_S64);
  mydev_buffer scalar = a.buffer();
  scalar.data = nullptr;
  constexpr int64_t kLarge = (int64_t{1} << 53) + 1;  // not a double
  ASSERT_EQ(run(kernel("mydev.add"), {out.buffer(), a.buffer(), scalar}, {int_attribute("scalar", kLarge)}), MYDEV_OK);
  EXPECT_EQ(out.memory, (std::vector<int64_t>{kLarge + 1, kLarge + 2, kLarge + 3}));
}

TEST_P(PerInstructionSet, ComparisonsGivePred) {
  auto a = dense<float>({1, 2, kNan, -0.0f}, MYDEV_F32);
  auto b = dense<float>({2, 2, kNan, 0.0f}, MYDEV_F32);
  auto out = dense(std::vector<uint8_t>(4, 7), MYDEV_PRED);
  ASSERT_EQ(run(kernel("mydev.ne"), {out.buffer(), a.buffer(), b.buffer()}), MYDEV_OK);
  EXPECT_EQ(out.memory, (std::vector<uint8_t>{1, 0, 1, 0}));
}

TEST_P(PerInstructionSet, ExtremaLetNanThrough) {
  auto a = dense<float>({1, kNan, 3}, MYDEV_F32);
  auto b = dense<float>({kNan, 2, 2}, MYDEV_F32);
  auto out = dense(std::vector<float>(3), MYDEV_F32);
  ASSERT_EQ(run(kernel("mydev.minimum"), {out.buffer(), a.buffer(), b.buffer()}), MYDEV_OK);
  EXPECT_TRUE(std::isnan(out.memory[0]) && std::isnan(out.memory[1]));
  EXPECT_EQ(out.memory[2], 2);
}

TEST_P(PerInstructionSet, WhereTakesPredBesideT) {
  auto condition = dense<uint8_t>({1, 0, 1}, MYDEV_PRED);
  auto a = dense<double>({1, 2, 3}, MYDEV_F64);
  auto out = dense(std::vector<double>(3), MYDEV_F64);
  mydev_buffer scalar = a.buffer();
  scalar.data = nullptr;
  ASSERT_EQ(run(kernel("mydev.where"), {out.buffer(), condition.buffer(), a.buffer(), scalar},
                {float_attribute("scalar", -1)}),
            MYDEV_OK);
  EXPECT_EQ(out.memory, (std::vector<double>{1, -1, 3}));
}

TEST_P(PerInstructionSet, BoolsAddAsOr) {
  auto a = dense<uint8_t>({0, 1, 1}, MYDEV_PRED);
  auto out = dense(std::vector<uint8_t>(3), MYDEV_PRED);
  ASSERT_EQ(run(kernel("mydev.add"), {out.buffer(), a.buffer(), a.buffer()}), MYDEV_OK);
  EXPECT_EQ(out.memory, (std::vector<uint8_t>{0, 1, 1}));
}

TEST_P(PerInstructionSet, ComplexProduct) {
  auto a = dense<float>({1, 2, 0, 1}, MYDEV_C64);
  a.sizes = {2};
  auto out = dense(std::vector<float>(4), MYDEV_C64);
  out.sizes = {2};
  ASSERT_EQ(run(kernel("mydev.mul"), {out.buffer(), a.buffer(), a.buffer()}), MYDEV_OK);
  EXPECT_EQ(out.memory, (std::vector<float>{-3, 4, -1, 0}));
}

class IntegerDivision : public testing::TestWithParam<std::tuple<InstructionSet, const char*, std::vector<int32_t>>> {};

TEST_P(IntegerDivision, FollowsItsRounding) {
  const auto& [isa, name, want] = GetParam();
  auto a = dense<int32_t>({7, -7, 7, -7, std::numeric_limits<int32_t>::min()}, MYDEV_S32);
  auto b = dense<int32_t>({2, 2, -2, -2, -1}, MYDEV_S32);
  auto out = dense(std::vector<int32_t>(5), MYDEV_S32);
  ASSERT_EQ(run(kernel_of(isa, name), {out.buffer(), a.buffer(), b.buffer()}), MYDEV_OK);
  EXPECT_EQ(out.memory, want);
}
TEST_P(IntegerDivision, FailsOnAZeroDivisor) {
  const auto& [isa, name, want] = GetParam();
  auto a = dense<int32_t>({7, 7}, MYDEV_S32);
  auto b = dense<int32_t>({2, 0}, MYDEV_S32);
  EXPECT_EQ(run(kernel_of(isa, name), {a.buffer(), a.buffer(), b.buffer()}), MYDEV_FAILED_PRECONDITION);
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

TEST_P(PerInstructionSet, RefusesADtypeThatItLacks) {
  auto a = dense<int32_t>({1}, MYDEV_S32);
  EXPECT_EQ(run(kernel("mydev.exp"), {a.buffer(), a.buffer()}), MYDEV_UNIMPLEMENTED);
}
TEST_P(PerInstructionSet, RefusesOperandsOfDifferentShapes) {
  auto a = dense<float>({1, 2}, MYDEV_F32);
  auto b = dense<float>({1, 2, 3}, MYDEV_F32);
  EXPECT_EQ(run(kernel("mydev.exp"), {a.buffer(), b.buffer()}), MYDEV_INVALID_ARGUMENT);
}

// --- copy and fill -------------------------------------------------------------------------------------------------

// -1.5, 0, 1, 3, 100 as elements of a dtype, written by hand where C++ has no such type.
std::vector<uint8_t> encode(const std::vector<double>& values, mydev_dtype dtype) {
  std::vector<uint8_t> bytes(values.size() * static_cast<size_t>(dtype_size(dtype)));
  uint8_t* p = bytes.data();
  const auto put = [&p](auto element) {
    std::memcpy(p, &element, sizeof(element));
    p += sizeof(element);
  };
  for (const double v : values) {
    const auto f = static_cast<float>(v);
    uint32_t word = 0;
    std::memcpy(&word, &f, sizeof(word));
    switch (dtype) {
      case MYDEV_PRED:
        put(static_cast<uint8_t>(v != 0));
        break;
      case MYDEV_S8:
        put(static_cast<int8_t>(v));
        break;
      case MYDEV_S16:
        put(static_cast<int16_t>(v));
        break;
      case MYDEV_S32:
        put(static_cast<int32_t>(v));
        break;
      case MYDEV_S64:
        put(static_cast<int64_t>(v));
        break;
      case MYDEV_U8:
        put(static_cast<uint8_t>(static_cast<int>(v)));
        break;
      case MYDEV_U16:
        put(static_cast<uint16_t>(static_cast<int>(v)));
        break;
      case MYDEV_U32:
        put(static_cast<uint32_t>(static_cast<int>(v)));
        break;
      case MYDEV_U64:
        put(static_cast<uint64_t>(static_cast<int>(v)));
        break;
      case MYDEV_F16:
        put(static_cast<_Float16>(v));
        break;
      case MYDEV_BF16:
        put(static_cast<uint16_t>(word >> 16));  // the values are exact
        break;
      case MYDEV_F32:
        put(f);
        break;
      case MYDEV_F64:
        put(v);
        break;
      case MYDEV_C64:
        put(f);
        put(0.0f);
        break;
      default:
        put(v);
        put(0.0);
        break;
    }
  }
  return bytes;
}

constexpr mydev_dtype kAllDtypes[] = {MYDEV_PRED, MYDEV_S8,  MYDEV_S16, MYDEV_S32, MYDEV_S64,
                                      MYDEV_U8,   MYDEV_U16, MYDEV_U32, MYDEV_U64, MYDEV_F16,
                                      MYDEV_BF16, MYDEV_F32, MYDEV_F64, MYDEV_C64, MYDEV_C128};

class CopyBetween : public testing::TestWithParam<std::tuple<InstructionSet, mydev_dtype, mydev_dtype>> {};

TEST_P(CopyBetween, ConvertsEachValue) {
  const auto& [isa, from, to] = GetParam();
  const std::vector<double> values = {0, 1, 3, 100, 42, 0, 7};
  auto in = encode(values, from);
  const auto want = encode(from == MYDEV_PRED ? std::vector<double>{0, 1, 1, 1, 1, 0, 1} : values, to);
  std::vector<uint8_t> out(want.size(), 0xee);
  const int64_t size = 7, stride = 1;
  ASSERT_EQ(
      run(kernel_of(isa, "mydev.copy"), {{out.data(), &size, &stride, 1, to}, {in.data(), &size, &stride, 1, from}}),
      MYDEV_OK);
  EXPECT_EQ(out, want);
}

INSTANTIATE_TEST_SUITE_P(Pointwise, CopyBetween,
                         testing::Combine(testing::ValuesIn(all_instruction_sets()), testing::ValuesIn(kAllDtypes),
                                          testing::ValuesIn(kAllDtypes)),
                         [](const auto& info) {
                           return isa_name(std::get<0>(info.param)) + "_" + dtype_name(std::get<1>(info.param)) +
                                  "_to_" + dtype_name(std::get<2>(info.param));
                         });

class CopyLayouts : public testing::TestWithParam<std::tuple<InstructionSet, Layout, mydev_dtype>> {};

TEST_P(CopyLayouts, MovesEachElementToItsPlace) {
  const auto& [isa, layout, to] = GetParam();
  auto in = strided<float>(layout.sizes, layout.a, MYDEV_F32, 2);
  const auto check = [&](auto out) {
    auto want = out;
    const int64_t count = std::accumulate(layout.sizes.begin(), layout.sizes.end(), int64_t{1}, std::multiplies<>());
    for (int64_t position = 0; position < count; ++position) {
      std::vector<int64_t> index(layout.sizes.size());
      int64_t rest = position;
      for (size_t d = layout.sizes.size(); d-- > 0; rest /= layout.sizes[d]) index[d] = rest % layout.sizes[d];
      want.at(index) = in.at(index);
    }
    ASSERT_EQ(run(kernel_of(isa, "mydev.copy"), {out.buffer(), in.buffer()}), MYDEV_OK);
    EXPECT_EQ(out.memory, want.memory);
  };
  if (to == MYDEV_F32) {
    check(strided<float>(layout.sizes, layout.out, to, 1));
  } else {
    check(strided<double>(layout.sizes, layout.out, to, 1));
  }
}

INSTANTIATE_TEST_SUITE_P(Pointwise, CopyLayouts,
                         testing::Combine(testing::ValuesIn(all_instruction_sets()), testing::ValuesIn(kLayouts),
                                          testing::Values(MYDEV_F32, MYDEV_F64)),
                         [](const auto& info) {
                           return isa_name(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name + "_to_" +
                                  dtype_name(std::get<2>(info.param));
                         });

TEST_P(PerInstructionSet, CopyAppliesTheLazyBits) {
  auto in = dense<float>({1, 2, 3, -4}, MYDEV_C64);
  in.sizes = {2};
  auto out = dense(std::vector<float>(4), MYDEV_C64);
  out.sizes = {2};
  ASSERT_EQ(run(kernel("mydev.copy"), {out.buffer(), in.buffer()},
                {bool_attribute("conj", true), bool_attribute("neg", true)}),
            MYDEV_OK);
  EXPECT_EQ(out.memory, (std::vector<float>{-1, 2, -3, -4}));
}

TEST_P(PerInstructionSet, CopyRoundsBfloat16ToNearestEven) {
  auto in = dense<float>({1.00390625f, 1.01171875f, kNan, kInfinity, 3.4e38f}, MYDEV_F32);
  auto out = dense(std::vector<uint16_t>(5), MYDEV_BF16);
  ASSERT_EQ(run(kernel("mydev.copy"), {out.buffer(), in.buffer()}), MYDEV_OK);
  EXPECT_EQ(out.memory, (std::vector<uint16_t>{0x3f80, 0x3f82, 0x7fc0, 0x7f80, 0x7f80}));
}

TEST_P(PerInstructionSet, CopyWrapsNegativeFloatsIntoUnsigned) {
  auto in = dense<float>({-1.5f, 300.0f}, MYDEV_F32);
  auto out = dense(std::vector<uint8_t>(2), MYDEV_U8);
  ASSERT_EQ(run(kernel("mydev.copy"), {out.buffer(), in.buffer()}), MYDEV_OK);
  EXPECT_EQ(out.memory, (std::vector<uint8_t>{255, 44}));
}

class Fill : public testing::TestWithParam<std::tuple<InstructionSet, mydev_dtype>> {};

TEST_P(Fill, WritesTheValueAndNothingBetween) {
  const auto& [isa, dtype] = GetParam();
  const int64_t sizes[] = {3, 5}, strides[] = {16, 2}, size = 48;
  const auto bytes = static_cast<size_t>(dtype_size(dtype));
  std::vector<uint8_t> out(static_cast<size_t>(size) * bytes, 0xee);
  const auto element = encode({3}, dtype);
  auto want = out;
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 5; ++j) {
      std::copy(element.begin(), element.end(), want.begin() + static_cast<int64_t>(bytes) * (i * 16 + j * 2));
    }
  }
  ASSERT_EQ(run(kernel_of(isa, "mydev.fill"), {{out.data(), sizes, strides, 2, dtype}}, {float_attribute("value", 3)}),
            MYDEV_OK);
  EXPECT_EQ(out, want);
}

INSTANTIATE_TEST_SUITE_P(Pointwise, Fill,
                         testing::Combine(testing::ValuesIn(all_instruction_sets()), testing::ValuesIn(kAllDtypes)),
                         [](const auto& info) {
                           return isa_name(std::get<0>(info.param)) + "_" + dtype_name(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace mydev::kernels
