// StableHLO programs: the table of operators, text, and what is verified of programs. Bytecode has tests of its own.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "fuzz.h"
#include "runtime/base/status.h"
#include "stablehlo/ir/operator.h"
#include "stablehlo/text/text.h"
#include "stablehlo/verifier/verifier.h"

namespace mydev::stablehlo {
namespace {

// The message of the error that it raises; "" if it raises none.
std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// A module whose main takes %x: tensor<4x8xf32> and %i: tensor<i32>, and returns what the text computes, as %0.
std::string program(const std::string& operations, const std::string& type) {
  return "module @m {\n  func.func @main(%x: tensor<4x8xf32>, %i: tensor<i32>) -> " + type + " {\n" + operations +
         "\nreturn %0 : " + type + "\n  }\n}\n";
}

Module read(const std::string& operations, const std::string& type) {
  return read_text(program(operations, type));
}

// Returns the error that verifying the program raises.
std::string verdict(const std::string& operations, const std::string& type) {
  const Module module = read(operations, type);
  return error_of([&] { verify(module); });
}

const Operation& first_operation(const Module& module) {
  return *module.main().body->body().operations.front();
}

#define EXPECT_HAS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

constexpr const char* kSum =
    "({\n^bb0(%a: tensor<f32>, %b: tensor<f32>):\n%s = stablehlo.add %a, %b : tensor<f32>\n"
    "stablehlo.return %s : tensor<f32>\n})";

// --- the table ---

TEST(OperatorTable, FindsEachRowByItsName) {
  std::set<std::string_view> names;
  for (const OperatorRow& row : operator_rows()) {
    EXPECT_EQ(find_operator(row.name), &row) << row.name;
    EXPECT_EQ(&operator_row(row.op), &row) << row.name;
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
  }
  EXPECT_EQ(find_operator("stablehlo.frobnicate"), nullptr);
}

TEST(OperatorTable, DividesOperandsIntoGroups) {
  const std::string_view groups = operator_row(Operator::kScatter).operands;
  EXPECT_TRUE(fits_groups(groups, 5));
  EXPECT_FALSE(fits_groups(groups, 4));
  EXPECT_EQ(group_range(groups, "inputs", 5).count, 2U);
  EXPECT_EQ(group_range(groups, "scatter_indices", 5).begin, 2U);
  EXPECT_EQ(group_range(groups, "updates", 5).begin, 3U);
  EXPECT_EQ(group_range(groups, "updates", 5).count, 2U);
  EXPECT_EQ(group_range(groups, "others", 5).count, 0U);
}

// --- attributes of operations ---

TEST(Operation, GivesAttributesByName) {
  const Module module =
      read("%0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>", "tensor<8x4xf32>");
  EXPECT_EQ(first_operation(module).integers("permutation"), (std::vector<int64_t>{1, 0}));
  EXPECT_TRUE(first_operation(module).integers_or_none("none").empty());
}

TEST(Operation, SaysWhichAttributeIsMissing) {
  const Module module = read("%0 = stablehlo.negate %x : tensor<4x8xf32>", "tensor<4x8xf32>");
  EXPECT_EQ(error_of([&] { first_operation(module).integer("dimension"); }),
            "stablehlo.negate (operation 0 of function 'main'): it has no attribute 'dimension'");
}

TEST(Operation, SaysWhatAnAttributeIsInstead) {
  const Module module =
      read("%0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>", "tensor<8x4xf32>");
  EXPECT_HAS(error_of([&] { first_operation(module).boolean("permutation"); }),
             "its attribute 'permutation' is a tensor literal, which is not what it takes");
}

TEST(Operation, GivesItsGroupsOfOperands) {
  const Module module = read(
      "%v = stablehlo.constant dense<0.0> : tensor<f32>\n%0 = \"stablehlo.reduce\"(%x, %v) "
      "<{dimensions = array<i64: 1>}> " +
          std::string(kSum) + " : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>",
      "tensor<4xf32>");
  verify(module);
  const Operation& op = *module.main().body->body().operations[1];
  EXPECT_EQ(op.operand_group("inputs").size(), 1U);
  EXPECT_EQ(op.operand_group("init_values")[0]->type->text(), "tensor<f32>");
}

// --- modules ---

TEST(Module, SaysThatThereIsNoMain) {
  const Module module = read_text("func.func @other() { return }");
  EXPECT_HAS(error_of([&] { module.main(); }), "has no function 'main'");
}

TEST(Module, SaysWhichCalledFunctionIsMissing) {
  const Module module = read("%0 = func.call @missing(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>", "tensor<4x8xf32>");
  EXPECT_HAS(error_of([&] { module.callee(first_operation(module)); }), "the module has no function 'missing'");
}

// --- text ---

class TextRoundTrip : public testing::TestWithParam<const char*> {};

TEST_P(TextRoundTrip, PrintsWhatWasRead) {
  const std::string once = print(read_text(GetParam()));
  EXPECT_EQ(print(read_text(once)), once);
}

INSTANTIATE_TEST_SUITE_P(
    Programs, TextRoundTrip,
    testing::Values(
        "module @m attributes {mhlo.num_partitions = 2 : i32, \"odd name\" = [1, -2.5, \"a\\22b\", unit, {}]} {}",
        "func.func private @f(%a: tensor<?x2xbf16> {mhlo.sharding = \"{replicated}\"}) -> (tensor<?x2xbf16> {x.y}) "
        "{ return %a : tensor<?x2xbf16> }",
        "func.func @f() -> tuple<!stablehlo.token, tensor<f32>> {\n%0 = stablehlo.create_token : !stablehlo.token\n"
        "%1 = stablehlo.constant dense<0x7FC00000> : tensor<f32>\n"
        "%2 = \"stablehlo.tuple\"(%0, %1) : (!stablehlo.token, tensor<f32>) -> tuple<!stablehlo.token, tensor<f32>>\n"
        "return %2 : tuple<!stablehlo.token, tensor<f32>> }",
        "func.func @f(%a: tensor<?xf32, #stablehlo.bounds<7>>) { return }"));

struct LiteralCase {
  const char* text;
  std::vector<double> values;
};
class TextLiteral : public testing::TestWithParam<LiteralCase> {};

TEST_P(TextLiteral, HasItsValues) {
  const Module module =
      read_text("func.func @main() { %0 = stablehlo.constant " + std::string(GetParam().text) + "\nreturn }");
  EXPECT_EQ(floats_of(first_operation(module).literal("value")), GetParam().values);
}

INSTANTIATE_TEST_SUITE_P(
    Types, TextLiteral,
    testing::Values(LiteralCase{"dense<[[1, -2], [3, 4]]> : tensor<2x2xi8>", {1, -2, 3, 4}},
                    LiteralCase{"dense<2.5> : tensor<3xf64>", {2.5, 2.5, 2.5}},
                    LiteralCase{"dense<[0.1, 65520.0]> : tensor<2xf16>", {0.0999755859375, HUGE_VAL}},
                    LiteralCase{"dense<[5.9604644775390625e-08, 6.1e-05]> : tensor<2xf16>",
                                {5.9604644775390625e-08, 6.097555160522461e-05}},
                    LiteralCase{"dense<[0.1, 3.39e38]> : tensor<2xbf16>", {0.10009765625, 3.3895313892515355e+38}},
                    LiteralCase{"dense<0xFF80> : tensor<bf16>", {-HUGE_VAL}},
                    LiteralCase{"dense<\"0x0000803F00000040\"> : tensor<2xf32>", {1, 2}},
                    LiteralCase{"dense<[true, false]> : tensor<2xi1>", {1, 0}},
                    LiteralCase{"dense<18446744073709551615> : tensor<ui64>", {18446744073709551615.0}},
                    LiteralCase{"dense<> : tensor<0x2xf32>", {}}));

struct ErrorCase {
  const char* text;
  const char* error;
};
class TextError : public testing::TestWithParam<ErrorCase> {};

TEST_P(TextError, NamesPlaceAndReason) {
  EXPECT_HAS(error_of([] { read_text(GetParam().text); }), GetParam().error);
}

INSTANTIATE_TEST_SUITE_P(
    Texts, TextError,
    testing::Values(
        ErrorCase{"module {\n  func.func @f( {", "line 2, column 17: expected a value, found '{'"},
        ErrorCase{"module {", "expected a function, found the end of the text"},
        ErrorCase{"func.func @f() { %0 = stablehlo.frobnicate : tensor<f32>",
                  "'stablehlo.frobnicate' is no operator of StableHLO 1.13"},
        ErrorCase{"func.func @f() { return %x : tensor<f32> }", "there is no value %x here"},
        ErrorCase{"func.func @f(%x: tensor<4xf31>) { return }", "expected a type, found 'f31>"},
        ErrorCase{"func.func @f(%x: tensor<-4xf32>) { return }", "the sizes of tensor<-4xf32> are negative"},
        ErrorCase{"func.func @f() { %0 = stablehlo.constant dense<[1, 2]> : tensor<3xi32>\nreturn }",
                  "the elements of a literal do not make a tensor<3xi32>"},
        ErrorCase{"func.func @f() { %0 = stablehlo.constant dense<[[1], [2, 3]]> : tensor<2x1xi32>\nreturn }",
                  "a list has 2 elements, one before it 1"},
        ErrorCase{"func.func @f() { %0 = stablehlo.constant dense<300> : tensor<i8>\nreturn }",
                  "'300' is no number of the type i8"},
        ErrorCase{"func.func @f(%x: tensor<f32>) { %0 = stablehlo.sort %x : tensor<f32>\nreturn }",
                  "the short form of stablehlo.sort is not read; write it as \"stablehlo.sort\"(...)"},
        ErrorCase{"func.func @f(%x: tensor<f32>) { %0:2 = stablehlo.negate %x : tensor<f32>\nreturn }",
                  "stablehlo.negate has 1 results"},
        ErrorCase{"func.func @f() { %0 = stablehlo.create_token : ()\nreturn }", "expected '->' and the types"},
        ErrorCase{"func.func @f() { return }\nfunc.func @f() { return }", "there are two functions called 'f'"},
        ErrorCase{"func.func @f(%x: tensor<f32>) { %0 = stablehlo.negate %x : tensor<f32>\n}",
                  "does not end with a return"}));

TEST(Text, SurvivesNestingThatNobodyWrites) {
  const std::string deep(100000, '[');
  EXPECT_HAS(error_of([&] { read_text("module attributes {a = " + deep); }), "nested more than 100 deep");
  EXPECT_HAS(error_of([&] { read_text("func.func @f() { %0 = stablehlo.constant dense<" + deep); }), "nested deeper");
}

TEST(Text, ReadsPastShardingsAndLeavesThemOut) {
  const Module module = read_text(
      "func.func @f(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{\">\"}]>, a.rule = "
      "#sdy.op_sharding_rule<([i])->([i]) {i=4}>, a.b = 1 : i64}) { return }");
  EXPECT_HAS(print(module), "(%arg0: tensor<4xf32> {a.b = 1 : i64})");
}

TEST(Text, NamesOfRegionsEndWithThem) {
  const std::string text = program(
      "%v = stablehlo.constant dense<0.0> : tensor<f32>\n%1 = \"stablehlo.reduce\"(%x, %v) <{dimensions = "
      "array<i64: 1>}> " +
          std::string(kSum) +
          " : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>\n%0 = stablehlo.negate %s : tensor<f32>",
      "tensor<f32>");
  EXPECT_HAS(error_of([&] { read_text(text); }), "there is no value %s here");
}

TEST(TextFuzz, SurvivesManyChanges) {
  const std::string text = program(
      "%v = stablehlo.constant dense<[[1.5, 2.0]]> : tensor<1x2xf32>\n%0 = \"stablehlo.reduce\"(%x, %i) <{dimensions = "
      "array<i64: 1>, f = #stablehlo.gather<offset_dims = [1]>}> " +
          std::string(kSum) + " {a.b = \"c\"} : (tensor<4x8xf32>, tensor<i32>) -> tensor<4xf32>",
      "tensor<4xf32>");
  constexpr std::string_view kCharacters = "(){}[]<>%@#\"'\\:=,x0123456789-.?abc \n";
  fuzz(20000, 5, [&](std::mt19937& random) {
    std::string changed = text;
    for (unsigned i = 1 + random() % 6; i > 0; --i) {
      const size_t place = random() % changed.size();
      if (random() % 2 == 0) {
        changed[place] = kCharacters[random() % kCharacters.size()];
      } else {
        changed.erase(place, random() % 5);
      }
      if (changed.empty()) return;
    }
    error_of([&] {
      const Module module = read_text(changed);
      verify(module);
      print(module);
    });
  });
}

// --- the verifier ---

struct VerifierCase {
  const char* operations;
  const char* type;
  const char* error;  // "": it is right
};
class Verifier : public testing::TestWithParam<VerifierCase> {};

TEST_P(Verifier, SaysWhatIsWrong) {
  const std::string error = verdict(GetParam().operations, GetParam().type);
  if (*GetParam().error == '\0') {
    EXPECT_EQ(error, "");
  } else {
    EXPECT_HAS(error, GetParam().error);
    EXPECT_HAS(error, "function 'main'");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Verifier,
    testing::Values(
        VerifierCase{"%0 = stablehlo.add %x, %x : tensor<4x8xf32>", "tensor<4x8xf32>", ""},
        VerifierCase{"%0 = stablehlo.add %x, %x : tensor<8x4xf32>", "tensor<8x4xf32>", "differ in type"},
        VerifierCase{"%0 = stablehlo.broadcast_in_dim %x, dims = [1, 2] : (tensor<4x8xf32>) -> tensor<2x4x8xf32>",
                     "tensor<2x4x8xf32>", ""},
        VerifierCase{"%0 = stablehlo.broadcast_in_dim %x, dims = [1, 3] : (tensor<4x8xf32>) -> tensor<2x4x8xf32>",
                     "tensor<2x4x8xf32>", "'broadcast_dimensions' names dimension 3 of 3"},
        VerifierCase{"%0 = stablehlo.broadcast_in_dim %x, dims = [1, 1] : (tensor<4x8xf32>) -> tensor<2x4x8xf32>",
                     "tensor<2x4x8xf32>", "'broadcast_dimensions' names dimension 1 twice"},
        VerifierCase{"%0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<4x8xf32>",
                     "tensor<4x8xf32>", "whose sizes do not follow from the operands"},
        VerifierCase{"%0 = stablehlo.reshape %x : (tensor<4x8xf32>) -> tensor<33xf32>", "tensor<33xf32>",
                     "are not of as many elements"},
        VerifierCase{"%0 = stablehlo.slice %x [1:5, 0:8] : (tensor<4x8xf32>) -> tensor<4x8xf32>", "tensor<4x8xf32>",
                     "elements 1 to 5 of dimension 0, which has 4"},
        VerifierCase{"%0 = stablehlo.concatenate %x, %x, dim = 2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> "
                     "tensor<8x8xf32>",
                     "tensor<8x8xf32>", "'dimension' names dimension 2 of 2"},
        VerifierCase{"%0 = stablehlo.iota dim = 3 : tensor<2xi32>", "tensor<2xi32>",
                     "'iota_dimension' names dimension 3 of 1"},
        VerifierCase{"%0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<4x8xf32>, "
                     "tensor<4x8xf32>) -> tensor<4x8xf32>",
                     "tensor<4x8xf32>", "contracting dimensions of the sizes 8 and 4"},
        VerifierCase{"%0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1] : (tensor<4x8xf32>, "
                     "tensor<4x8xf32>) -> tensor<4x4xf32>",
                     "tensor<4x4xf32>", ""},
        VerifierCase{"%0 = stablehlo.select %i, %x, %x : tensor<i32>, tensor<4x8xf32>", "tensor<4x8xf32>",
                     "found tensor<i32> where a tensor of i1 is expected"},
        VerifierCase{"%0 = stablehlo.compare LT, %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi8>",
                     "tensor<4x8xi8>", "where a tensor of i1 is expected"},
        VerifierCase{"%0 = stablehlo.dynamic_slice %x, %i, sizes = [1, 1] : (tensor<4x8xf32>, tensor<i32>) -> "
                     "tensor<1x1xf32>",
                     "tensor<1x1xf32>", "it has 1 start indices of an operand of rank 2"},
        VerifierCase{"%0 = \"stablehlo.case\"(%i) ({\nstablehlo.return %i : tensor<i32>\n}) : (tensor<i32>) -> "
                     "tensor<4x8xf32>",
                     "tensor<4x8xf32>", "what a region returns is of the type tensor<i32>, expected tensor<4x8xf32>"},
        VerifierCase{"%0 = \"stablehlo.while\"(%i) ({\n^bb0(%a: tensor<i32>):\nstablehlo.return %a : tensor<i32>\n}, "
                     "{\n^bb0(%a: tensor<i32>):\nstablehlo.return %a : tensor<i32>\n}) : (tensor<i32>) -> tensor<i32>",
                     "tensor<i32>", "a condition returns something else than one tensor<i1>"},
        VerifierCase{"%0 = \"stablehlo.transpose\"(%x) : (tensor<4x8xf32>) -> tensor<8x4xf32>", "tensor<8x4xf32>",
                     "it has no attribute 'permutation'"},
        VerifierCase{"%0 = \"stablehlo.transpose\"(%x) <{permutation = 1 : i64}> : (tensor<4x8xf32>) -> "
                     "tensor<8x4xf32>",
                     "tensor<8x4xf32>", "its attribute 'permutation' is an integer"},
        VerifierCase{"%0 = \"stablehlo.negate\"(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>",
                     "tensor<4x8xf32>", "it has 2 operands, expected 'operand'"}));

TEST(VerifierOfFunctions, ComparesWhatTheyReturn) {
  const Module module = read_text("func.func @main(%x: tensor<f32>) -> tensor<i32> { return %x : tensor<f32> }");
  EXPECT_HAS(error_of([&] { verify(module); }), "what it returns is of the type tensor<f32>, expected tensor<i32>");
}

TEST(VerifierOfFunctions, RefusesRecursion) {
  const Module module = read_text(
      "func.func @f(%x: tensor<f32>) -> tensor<f32> { %0 = func.call @g(%x) : (tensor<f32>) -> tensor<f32>\n"
      "return %0 : tensor<f32> }\n"
      "func.func @g(%x: tensor<f32>) -> tensor<f32> { %0 = func.call @f(%x) : (tensor<f32>) -> tensor<f32>\n"
      "return %0 : tensor<f32> }");
  EXPECT_HAS(error_of([&] { verify(module); }), "calls itself, directly or through others");
}

TEST(VerifierOfFunctions, ComparesCallsWithWhatIsCalled) {
  const Module module = read_text(
      "func.func @f(%x: tensor<f32>) -> tensor<f32> { %0 = func.call @g(%x) : (tensor<f32>) -> tensor<f32>\n"
      "return %0 : tensor<f32> }\nfunc.func @g() { return }");
  EXPECT_HAS(error_of([&] { verify(module); }), "function 'g' takes 0 and returns 0");
}

}  // namespace
}  // namespace mydev::stablehlo
