// Operators of StableHLO, each lowered and run: against its evaluation on the host, and against numbers.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "lowering_fixture.h"
#include "program_fixture.h"
#include "stablehlo/evaluator/evaluation.h"
#include "stablehlo/evaluator/number.h"

namespace mydev::lowering {
namespace {

struct OperatorCase {
  const char *name, *operation, *type;
};
void PrintTo(const OperatorCase& given, std::ostream* out) {
  *out << given.name << ' ' << given.type;
}

class LoweredOperator : public ::testing::TestWithParam<OperatorCase> {};

// Each operator gets two tensors of four numbers.
TEST_P(LoweredOperator, IsAsItsEvaluation) {
  const auto& [name, operation, type] = GetParam();
  const std::string tensor = "tensor<4x" + std::string(type) + ">";
  std::string body = operation;
  for (size_t at = body.find('$'); at != std::string::npos; at = body.find('$')) body.replace(at, 1, tensor);
  const std::string text =
      function("%x: " + tensor + ", %y: " + tensor, tensor, "%0 = " + body + "\n return %0 : " + tensor);
  const stablehlo::Module module = module_of(text);
  const stablehlo::Operation& op = *module.main().body->body().operations.front();

  const bool is_float = type[0] == 'f';
  const std::vector<int32_t> integers = {7, -8, 0, INT32_MIN}, others = {3, 5, 0, -1};
  const Values floats = {1.5F, -2.25F, 0, -1e30F}, more = {0.5F, 2, 0, 3};
  std::vector<std::vector<int32_t>> arguments(2, std::vector<int32_t>(4));
  std::memcpy(arguments[0].data(), is_float ? static_cast<const void*>(floats.data()) : integers.data(), 16);
  std::memcpy(arguments[1].data(), is_float ? static_cast<const void*>(more.data()) : others.data(), 16);

  std::vector<int32_t> expected(4);
  std::vector<const std::byte*> operands;
  for (const stablehlo::Value* operand : op.operands) {
    operands.push_back(reinterpret_cast<const std::byte*>(arguments[operand->index].data()));
  }
  const std::vector<std::byte*> results = {reinterpret_cast<std::byte*>(expected.data())};
  stablehlo::make_evaluation(module, op)(operands, results);
  const std::vector<int32_t> actual = run<int32_t>(text, arguments, 4);
  if (!is_float) {
    EXPECT_EQ(actual, expected);
    return;
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const float a = std::bit_cast<float>(actual[i]), b = std::bit_cast<float>(expected[i]);
    EXPECT_TRUE(a == b || (a != a && b != b) || std::abs(a - b) <= 1e-6F * std::abs(b)) << a << " is not " << b;
  }
}

constexpr OperatorCase kOperators[] = {
    {"Add", "stablehlo.add %x, %y : $", "f32"},
    {"Add", "stablehlo.add %x, %y : $", "ui32"},
    {"Multiply", "stablehlo.multiply %x, %y : $", "i32"},
    {"Divide", "stablehlo.divide %x, %y : $", "i32"},
    {"Divide", "stablehlo.divide %x, %y : $", "ui32"},
    {"Divide", "stablehlo.divide %x, %y : $", "f32"},
    {"Remainder", "stablehlo.remainder %x, %y : $", "i32"},
    {"Remainder", "stablehlo.remainder %x, %y : $", "f32"},
    {"Maximum", "stablehlo.maximum %x, %y : $", "ui32"},
    {"Power", "stablehlo.power %x, %y : $", "f32"},
    {"Power", "stablehlo.power %x, %y : $", "i32"},
    {"ShiftLeft", "stablehlo.shift_left %x, %y : $", "i32"},
    {"ShiftRightLogical", "stablehlo.shift_right_logical %x, %y : $", "i32"},
    {"ShiftRightArithmetic", "stablehlo.shift_right_arithmetic %x, %y : $", "ui32"},
    {"Sign", "stablehlo.sign %x : $", "f32"},
    {"Sign", "stablehlo.sign %x : $", "i32"},
    {"Clamp", "stablehlo.clamp %y, %x, %y : $", "f32"},
    {"Tanh", "stablehlo.tanh %x : $", "f32"},
    {"Logistic", "stablehlo.logistic %x : $", "f32"},
    {"RoundNearestAfz", "stablehlo.round_nearest_afz %x : $", "f32"},
    {"RoundNearestEven", "stablehlo.round_nearest_even %x : $", "f32"},
    {"Popcnt", "stablehlo.popcnt %x : $", "i32"},
    {"Xor", "stablehlo.xor %x, %y : $", "ui32"},
};

INSTANTIATE_TEST_SUITE_P(Operators, LoweredOperator, ::testing::ValuesIn(kOperators), [](const auto& info) {
  return std::string(info.param.name) + "_" + info.param.type + "_" + std::to_string(info.index);
});

// --- numbers -----------------------------------------------------------------------------------------------------

TEST(Number, OfFewBitsAreWhatTheyWere) {
  // Every value of the types of eight bits and fewer comes back as its bits, NaN as a NaN.
  using enum stablehlo::ElementType;
  for (const auto type : {kF4E2M1FN, kF6E2M3FN, kF6E3M2FN, kF8E3M4, kF8E4M3, kF8E4M3B11FNUZ, kF8E4M3FN, kF8E4M3FNUZ,
                          kF8E5M2, kF8E5M2FNUZ, kF8E8M0FNU, kF16, kBF16}) {
    const uint32_t bits = stablehlo::element_row(type).bits;
    for (uint32_t value = 0; value < (1U << bits); ++value) {
      uint32_t stored = 0;
      const stablehlo::Number number = stablehlo::load(type, reinterpret_cast<const std::byte*>(&value));
      stablehlo::store(type, number, reinterpret_cast<std::byte*>(&stored));
      if (number.real != number.real) {
        const stablehlo::Number again = stablehlo::load(type, reinterpret_cast<const std::byte*>(&stored));
        ASSERT_NE(again.real, again.real) << value;
      } else {
        ASSERT_EQ(stored, value) << stablehlo::element_row(type).name;
      }
    }
  }
}

TEST(Number, RoundsToNearestWithHalvesToEven) {
  const auto rounded = [](stablehlo::ElementType type, double value) {
    return stablehlo::rounded(type, {.real = value}).real;
  };
  EXPECT_EQ(rounded(stablehlo::ElementType::kF16, 2049), 2048);  // between 2048 and 2050
  EXPECT_EQ(rounded(stablehlo::ElementType::kF16, 2051), 2052);
  EXPECT_EQ(rounded(stablehlo::ElementType::kF16, 65519), 65504);
  EXPECT_EQ(rounded(stablehlo::ElementType::kF16, 65520), std::numeric_limits<double>::infinity());
  EXPECT_EQ(rounded(stablehlo::ElementType::kBF16, 1.00390625), 1);
  EXPECT_EQ(rounded(stablehlo::ElementType::kF8E5M2, 1e-9), 0);
  EXPECT_EQ(rounded(stablehlo::ElementType::kF4E2M1FN, 100), 6);
}

TEST(LoweringOperators, CompareTruths) {
  for (const auto& [comparison, expected] :
       std::vector<std::pair<std::string, std::vector<int32_t>>>{{"EQ, %p, %q", {-1, 6, -3, 4}},
                                                                 {"NE, %p, %q", {-5, -2, 7, 8}},
                                                                 {"EQ, %p, %no", {-5, 6, 7, 4}},
                                                                 {"NE, %p, %no", {-1, -2, -3, 8}},
                                                                 {"EQ, %p, %yes", {-1, -2, -3, 8}},
                                                                 {"NE, %no, %p", {-1, -2, -3, 8}}}) {
    EXPECT_EQ(run<int32_t>(function("%x: tensor<4xi32>, %y: tensor<4xi32>", "tensor<4xi32>", R"(
      %zero = stablehlo.constant dense<0> : tensor<4xi32>
      %no = stablehlo.constant dense<false> : tensor<4xi1>
      %yes = stablehlo.constant dense<true> : tensor<4xi1>
      %p = stablehlo.compare LT, %x, %zero : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
      %q = stablehlo.compare LT, %y, %zero : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
      %r = stablehlo.compare )" + comparison + R"( : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
      %0 = stablehlo.select %r, %x, %y : tensor<4xi1>, tensor<4xi32>
      return %0 : tensor<4xi32>)"),
                           {{-1, -2, 7, 4}, {-5, 6, -3, 8}}, 4),
              expected)
        << comparison;
  }
}

}  // namespace
}  // namespace mydev::lowering
