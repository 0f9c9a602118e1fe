// The parts of contracts: their text, the expressions in it, and the errors for a frame that does not fit.
#include <array>
#include <cmath>
#include <limits>

#include "error_fixture.h"
#include "kernels/spec/contract.h"
#include "runtime/frame/frame.h"

namespace mydev {
namespace {

KernelContract parse(const char* operands, const char* types = "T: f32", const char* expression = "") {
  return parse_contract("test.kernel", "test", operands, types, expression, "");
}

// --- text ------------------------------------------------------------------------------------------------------------

TEST(ContractText, SaysWhatOperandsAre) {
  const KernelContract c = parse(
      "dense (&out... T[m,3], [sum strided T[m*]]) <- (a...? T[...]|[]|number, b f32; flag: bool, n: int 1..3 = 2) "
      "where ...: 1..4, sum may be b",
      "T: f16 ints");
  ASSERT_EQ(c.results.size(), 2u);
  EXPECT_TRUE(c.results[0].is_updated && c.results[0].is_list);
  EXPECT_EQ(c.results[0].layout, ContractLayout::kDense);
  EXPECT_EQ(c.results[1].layout, ContractLayout::kStrided);
  EXPECT_TRUE(c.results[1].may_be_left_out);
  EXPECT_TRUE(c.results[1].shapes[0][0].is_product);
  EXPECT_EQ(c.results[1].may_be, std::vector<int32_t>{1});
  EXPECT_TRUE(c.operands[0].is_list && c.operands[0].may_be_absent && c.operands[0].may_be_number);
  EXPECT_EQ(c.operands[0].shapes.size(), 2u);
  EXPECT_EQ(c.operands[1].dtypes, MYDEV_DTYPE_BIT(MYDEV_F32));
  EXPECT_EQ(c.attributes[1].low, 1);
  EXPECT_EQ(c.attributes[1].high, 3);
  EXPECT_EQ(c.attributes[1].otherwise, 2);
  EXPECT_EQ(c.least_list, 1);
  EXPECT_EQ(c.greatest_list, 4);
}

TEST(ContractText, NamesDtypes) {
  const KernelContract c = parse("(out T) <- (a S)", "T: pred f16; S: T f32");
  EXPECT_EQ(dtype_list(c.variables[0].dtypes), "pred f16");
  EXPECT_EQ(dtype_list(c.variables[1].dtypes), "pred f16 f32");
  EXPECT_EQ(c.variables[1].like, 0);
}

TEST(ContractText, NamesDtypesThatAreTakenOnRequestAndUnderConditions) {
  const KernelContract c = parse("(out R) <- (a T, b s64)", "T: f16 | s8 u8; R: T | s32(s8 u8) f32(f16)");
  EXPECT_EQ(dtype_list(c.all_dtypes()), "s8 s32 s64 u8 f16 f32");
  EXPECT_EQ(dtype_list(c.usual_dtypes()), "s64 f16");
  EXPECT_TRUE(c.variables[1].takes(MYDEV_S32, MYDEV_U8));
  EXPECT_TRUE(c.variables[1].takes(MYDEV_S8, MYDEV_S8));
  EXPECT_FALSE(c.variables[1].takes(MYDEV_S32, MYDEV_F16));
  const auto violation = [&](mydev_dtype out, mydev_dtype a) {
    int64_t element = 0;
    const auto number = [&](mydev_dtype dtype) {
      return mydev_buffer{&element, nullptr, nullptr, 0, static_cast<int16_t>(dtype), 0};
    };
    const std::array buffers = {number(out), number(a), number(MYDEV_S64)};
    return contract_violation(c, make_frame(buffers, 1));
  };
  EXPECT_EQ(violation(MYDEV_S32, MYDEV_U8), "");
  EXPECT_NE(violation(MYDEV_S32, MYDEV_F16).find("R may not be s32 where T is f16"), std::string::npos);
}

TEST(ContractText, DtypesOfAKernelAreFoundByVariable) {
  EXPECT_EQ(dtype_list(contract_dtypes("mydev.exp", 'T')), "f16 f32 f64 bf16");
  EXPECT_EQ(contract_dtypes("mydev.exp", 'U'), 0u);
  EXPECT_EQ(contract_dtypes("mydev.none", 'T'), 0u);
  EXPECT_EQ(builtin_contract("mydev.none"), nullptr);
}

struct Mistake {
  const char *name, *operands, *types, *message;
};
constexpr Mistake kMistakes[] = {
    {"NoArrow", "(out T) (a T)", "T: f32", "expected '<-' at position 8"},
    {"NoType", "(out T) <- (a)", "T: f32", "expected a dtype at position 13"},
    {"UnknownType", "(out T) <- (a f31)", "T: f32", "'f31' is no dtype or set"},
    {"UnknownVariable", "(out T) <- (a U)", "T: f32", "'U' has no types"},
    {"UnknownKind", "(out T) <- (a T; n: integer)", "T: f32", "'integer' is no kind of attribute"},
    {"NoKind", "(out T) <- (a T; n)", "T: f32", "expected ':' at position 18"},
    {"TwoLists", "(out T[a...,b...]) <- (a T)", "T: f32", "a shape with two lists"},
    {"ProductBesideSizes", "(out T[a*,b]) <- (a T)", "T: f32", "'*' beside other sizes"},
    {"SizeAndList", "(out T[m]) <- (a T[m...])", "T: f32", "'m' is a size and a list of sizes"},
    {"LeftOutBefore", "(out T) <- ([a T], b T)", "T: f32", "only the last may be left out"},
    {"DefaultBefore", "(out T) <- (; a: int = 1, b: int)", "T: f32", "without a default after one that has one"},
    {"UnknownAlias", "(out T) <- (a T) where out may be c", "T: f32", "there is no operand or size 'c'"},
    {"UnknownSize", "(out T) <- (a T) where n = 1", "T: f32", "there is no operand or size 'n'"},
    {"TwoOfAName", "(out T) <- (out T)", "T: f32", "two things are called 'out'"},
    {"MoreText", "(out T) <- (a T) and", "T: f32", "expected the end at position 17"},
    {"SmallVariable", "(out T) <- (a T)", "t: f32", "a variable is one capital letter"},
    {"UnknownDtype", "(out T) <- (a T)", "T: f33", "'f33' is no dtype, set or earlier variable"},
    {"NoDtypes", "(out T) <- (a T)", "T:", "expected a dtype at position 2"},
    {"OpenCondition", "(out R) <- (a T)", "T: f16; R: T f32(f16", "expected ')'"},
    {"NoConditionOfThatName", "(out R) <- (a T)", "T: f16; R: T f32(f17)", "'f17' is no dtype or set"},
};

class ContractMistake : public testing::TestWithParam<Mistake> {};

TEST_P(ContractMistake, IsNamedWithItsPosition) {
  const Error error = error_of([] { parse(GetParam().operands, GetParam().types); });
  EXPECT_EQ(error.code(), MYDEV_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error.what()).find(GetParam().message), std::string::npos) << error.what();
  EXPECT_NE(std::string(error.what()).find("test.kernel"), std::string::npos) << error.what();
}

INSTANTIATE_TEST_SUITE_P(Texts, ContractMistake, testing::ValuesIn(kMistakes),
                         [](const auto& info) { return std::string(info.param.name); });

// --- expressions -----------------------------------------------------------------------------------------------------

template <typename Domain>
std::vector<Domain> values_of(const char* text, std::vector<Domain> x, std::vector<Domain> y = {},
                              mydev_dtype dtype = MYDEV_DTYPE_INVALID) {
  const Expression expression(text, {"x", "y"}, {});
  const size_t count = x.size();
  if (y.empty()) y.push_back(Domain{2});
  const bool uniform = y.size() != count;
  const std::array<Series<Domain>, 2> inputs = {Series<Domain>{std::move(x), false},
                                                Series<Domain>{std::move(y), uniform}};
  return expression.evaluate<Domain>(0, inputs, count, dtype).values;
}
using Reals = std::vector<double>;
using Integers = std::vector<int64_t>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Expression, BindsAsUsual) {
  EXPECT_EQ(values_of<double>("1 + x * y - 3 / 2", {4}), Reals{7.5});
  EXPECT_EQ(values_of<double>("-x - -y", {4}), Reals{-2});
  EXPECT_EQ(values_of<double>("(x + 1) * -y", {4}), Reals{-10});
  EXPECT_EQ(values_of<double>("x < 3 or x > 4 and not x == 5", {2, 3, 5, 6}), (Reals{1, 0, 0, 1}));
  EXPECT_EQ(values_of<double>("8 / 4 / y", {0}), Reals{1});
}

TEST(Expression, DefinesNames) {
  EXPECT_EQ(values_of<double>("s = x + 1; t = s * s; t - s", {2, 3}), (Reals{6, 12}));
}

TEST(Expression, KeepsNanInMaximaAndMinima) {
  for (const char* text : {"max(x, y)", "max(y, x)", "min(x, y)", "min(y, x)", "amax(x)", "amin(x)"}) {
    EXPECT_TRUE(std::isnan(values_of<double>(text, {kNan})[0])) << text;
  }
}

TEST(Expression, WrapsIntegersRound) {
  constexpr int64_t kGreatest = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(values_of<int64_t>("x + 1", {kGreatest}), Integers{std::numeric_limits<int64_t>::min()});
  EXPECT_EQ(values_of<int64_t>("x * y", {kGreatest}), Integers{-2});
  EXPECT_EQ(values_of<int64_t>("floor_div(x, y)", {-7, 7}), (Integers{-4, 3}));
  EXPECT_EQ(values_of<int64_t>("trunc_div(x, y)", {-7, 7}), (Integers{-3, 3}));
  EXPECT_EQ(values_of<int64_t>("remainder(x, y)", {-7, 7}), (Integers{1, 1}));
  EXPECT_EQ(values_of<int64_t>("shift_left(y, x)", {-1, 3, 64}), (Integers{0, 16, 0}));
}

TEST(Expression, InvertsPredicatesAsSuch) {
  EXPECT_EQ(values_of<int64_t>("bit_not(x)", {0, 1}, {}, MYDEV_PRED), (Integers{1, 0}));
  EXPECT_EQ(values_of<int64_t>("bit_not(x)", {0, 1}, {}, MYDEV_S32), (Integers{-1, -2}));
}

TEST(Expression, ReducesAllElements) {
  EXPECT_EQ(values_of<double>("x - mean(x)", {1, 2, 6}), (Reals{-2, -1, 3}));
  EXPECT_EQ(values_of<double>("argmax(x)", {1, 6, 6}), Reals{1});
  EXPECT_EQ(values_of<double>("argmin(x)", {1, kNan, 0}), Reals{1});
  EXPECT_EQ(values_of<double>("count(x) + sum(y)", {1, 2, 3}), Reals{9});
}

TEST(Expression, OfNothingIsTheIdentity) {
  const std::array<Series<double>, 1> inputs = {Series<double>{{}, false}};
  const auto value = [&](const char* text) {
    return Expression(text, {"x"}, {}).evaluate<double>(0, inputs, 0).values[0];
  };
  EXPECT_EQ(value("sum(x)"), 0);
  EXPECT_EQ(value("prod(x)"), 1);
  EXPECT_EQ(value("amax(x)"), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(value("all(x)"), 1);
  EXPECT_TRUE(std::isnan(value("mean(x)")));
}

TEST(Expression, SaysWhatADomainLacks) {
  const Error error = error_of([] { values_of<int64_t>("x / y", {1}); });
  EXPECT_EQ(error.code(), MYDEV_UNIMPLEMENTED);
  EXPECT_NE(std::string(error.what()).find("'/'"), std::string::npos) << error.what();
}

TEST(Expression, TellsWhatItReads) {
  const Expression expression("sum(x) + 1", {"x", "y"}, {});
  EXPECT_TRUE(expression.reads("x") && !expression.reads("y"));
  EXPECT_TRUE(expression.reduces());
}

struct BadExpression {
  const char *name, *text, *message;
};
constexpr BadExpression kBadExpressions[] = {
    {"Nothing", "", "expected a number, a name or '(' at position 0"},
    {"NoOperand", "x +", "expected a number, a name or '(' at position 3"},
    {"Unclosed", "(x", "expected an operator or ')' at position 2"},
    {"UnknownName", "x + z", "'z' is no operand, attribute or size at position 4"},
    {"UnknownFunction", "x + sinus(x)", "there is no function 'sinus' of 1 arguments at position 4"},
    {"WrongArity", "max(x)", "there is no function 'max' of 1 arguments"},
    {"TwoMeanings", "x = 1; x", "'x' is given a second meaning"},
    {"NoResult", "z = 1", "the last formula is for 'z', which is no result"},
    {"NoName", "1; x", "a formula without a name that is not the last"},
    {"MoreText", "x y", "expected an operator, ';' or the end at position 2"},
};

class ExpressionMistake : public testing::TestWithParam<BadExpression> {};

TEST_P(ExpressionMistake, IsNamedWithItsPosition) {
  const Error error = error_of([] { Expression(GetParam().text, {"x", "y"}, {}); });
  EXPECT_EQ(error.code(), MYDEV_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error.what()).find(GetParam().message), std::string::npos) << error.what();
}

INSTANTIATE_TEST_SUITE_P(Texts, ExpressionMistake, testing::ValuesIn(kBadExpressions),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ExpressionMistake, OfTooManyPartsIsRefused) {
  const Error error = error_of([] { Expression(std::string(1000, '(').append("x"), {"x"}, {}); });
  EXPECT_NE(std::string(error.what()).find("inside one another"), std::string::npos) << error.what();
}

// --- frames ----------------------------------------------------------------------------------------------------------

constexpr std::array<int64_t, 2> kSizes = {2, 3}, kStrides = {3, 1}, kTransposed = {1, 2}, kOther = {2, 4},
                                 kNarrow = {2, 1};
float values[64];

mydev_buffer buffer(mydev_dtype dtype = MYDEV_F32, const std::array<int64_t, 2>& sizes = kSizes,
                    const std::array<int64_t, 2>& strides = kStrides) {
  return {values, sizes.data(), strides.data(), 2, static_cast<int16_t>(dtype), 0};
}
mydev_buffer number(mydev_dtype dtype = MYDEV_F32) {
  static constexpr std::array<int64_t, 2> kZeros = {0, 0};
  mydev_buffer one = buffer(dtype, kSizes, kZeros);
  one.flags = MYDEV_BUFFER_SCALAR;
  return one;
}
mydev_buffer absent() {
  return {nullptr, nullptr, nullptr, 0, MYDEV_DTYPE_INVALID, 0};
}

// The violation in a frame with one result.
std::string violation(const KernelContract& contract, const std::vector<mydev_buffer>& buffers,
                      const std::vector<mydev_attribute>& attributes = {}) {
  return contract_violation(contract, make_frame(buffers, 1, attributes));
}

void expect_in(const std::string& text, const char* part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(ContractViolation, IsNoneOfAFrameThatFits) {
  const KernelContract& add = *builtin_contract("mydev.add");
  EXPECT_EQ(violation(add, {buffer(), buffer(), buffer()}, {float_attribute("alpha", 2)}), "");
  EXPECT_EQ(violation(add, {buffer(), buffer(), number()}), "");
  EXPECT_EQ(violation(add, {buffer(), buffer(MYDEV_F32, kSizes, kTransposed), buffer()}), "");
}

TEST(ContractViolation, NamesOperands) {
  const KernelContract& add = *builtin_contract("mydev.add");
  expect_in(violation(add, {buffer(), buffer()}), "there are 1 operands, where 2 fit");
  expect_in(violation(add, {buffer(), buffer(), buffer(), buffer()}), "there are 3 operands, where 2 fit");
  expect_in(violation(add, {buffer(), buffer(), buffer(MYDEV_S64)}), "'b' is s64, but T is f32");
  expect_in(violation(add, {buffer(MYDEV_U16), buffer(), buffer()}), "'out' is u16, and may be pred s8");
  expect_in(violation(add, {buffer(), buffer(), absent()}), "'b' is absent");
  expect_in(violation(add, {buffer(), buffer(), buffer(MYDEV_F32, kOther)}), "'b' of sizes [2,4] does not fit");
  expect_in(violation(add, {buffer(), buffer(), buffer(MYDEV_S64)}), "the contract is (out T) <- (a T|number");
  expect_in(violation(*builtin_contract("mydev.exp"), {buffer(), number()}), "'in' is one number");
}

TEST(ContractViolation, NamesAttributes) {
  const KernelContract& add = *builtin_contract("mydev.add");
  const std::vector<mydev_buffer> buffers = {buffer(), buffer(), buffer()};
  expect_in(violation(add, buffers, {float_attribute("beta", 2)}), "attribute 0 is 'beta' and not 'alpha'");
  expect_in(violation(add, buffers, {int_attribute("alpha", 2)}), "attribute 'alpha' has the kind INT");
  expect_in(violation(add, buffers, {float_attribute("alpha", 2), float_attribute("alpha", 2)}),
            "there are 2 attributes, and no more than 1 fit");
  expect_in(violation(*builtin_contract("mydev.clamp"), {buffer(), buffer()}), "attribute 'min' is missing");
  expect_in(violation(*builtin_contract("mydev.mse_loss"), buffers, {int_attribute("reduction", 3)}),
            "attribute 'reduction' is 3");
}

TEST(ContractViolation, NamesShapes) {
  const KernelContract dense = parse("dense (out T[m,n]) <- (a T[m,n])");
  expect_in(violation(dense, {buffer(), buffer(MYDEV_F32, kSizes, kTransposed)}), "'a' of sizes [2,3] is not dense");
  const KernelContract ranks = parse("(out T) <- (a T) where ...: 0..1");
  expect_in(violation(ranks, {buffer(), buffer()}), "'out' of sizes [2,3] does not fit");
  const KernelContract product = parse("(out T[n*]) <- (a T[m,n])");
  expect_in(violation(product, {buffer(), buffer()}), "of sizes [2,3] does not fit");
  const KernelContract sum = parse("(out T[o,n]) <- (in... T[o,d]) where n = sum(d)");
  EXPECT_EQ(violation(sum, {buffer(MYDEV_F32, kOther), buffer(MYDEV_F32, kNarrow), buffer()}), "");
  expect_in(violation(sum, {buffer(MYDEV_F32, kOther), buffer(), buffer()}), "size 'n' is 4, where sum(d) is 6");
}

TEST(ContractViolation, ListsHaveOneLength) {
  const KernelContract lists = parse("(out... T) <- (x... T, y... T)");
  const std::vector<mydev_buffer> five(5, buffer());
  expect_in(contract_violation(lists, make_frame(five, 2)), "there are 3 operands, where 4 fit");
  const std::vector<mydev_buffer> six(6, buffer());
  EXPECT_EQ(contract_violation(lists, make_frame(six, 2)), "");
}

}  // namespace
}  // namespace mydev
